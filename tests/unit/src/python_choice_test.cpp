#include "src/inputs/python_choice.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <catch2/catch.hpp>

#include "platform/error.h"
#include "platform/files/private_folder.h"
#include "tests/unit/environment_variable.h"
#include "tracer/trace/trace.h"

using namespace optrace;
using namespace optrace::test;

namespace {

/// Folders for environments, and a working folder, without any of the variables that name a Python.
class Pythons {
 public:
  Pythons() : working_folder_(std::filesystem::current_path()) {
    std::filesystem::create_directories(at("project/src"));
    std::filesystem::current_path(at("project/src"));
    std::filesystem::create_directories(at("path"));
  }
  ~Pythons() { std::filesystem::current_path(working_folder_); }
  Pythons(const Pythons&) = delete;
  Pythons& operator=(const Pythons&) = delete;

  std::string at(const std::string& name) const { return (folder_.path() / name).string(); }

  /// A program that does nothing.
  std::string program(const std::string& name) const {
    const std::filesystem::path path = folder_.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << "#!/bin/sh\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path.string();
  }

  /// A virtual environment; returns its Python.
  std::string environment(const std::string& name, bool torch) const {
    std::string python = program(name + "/bin/python");
    std::ofstream(at(name + "/pyvenv.cfg")) << "home = /usr/bin\n";
    if (torch) {
      const std::string folder = at(name + "/lib/python3.11/site-packages/torch");
      std::filesystem::create_directories(folder);
      std::ofstream(folder + "/version.py") << "__version__ = '2.6.0+cu124'\n";
    }
    return python;
  }

 private:
  PrivateFolder folder_;
  std::filesystem::path working_folder_;
  EnvironmentVariable own_{"OPTRACE_OWN_PYTHON", std::nullopt};
  EnvironmentVariable asked_{"OPTRACE_PYTHON", std::nullopt};
  EnvironmentVariable venv_{"VIRTUAL_ENV", std::nullopt};
  EnvironmentVariable conda_{"CONDA_PREFIX", std::nullopt};
  EnvironmentVariable python_path_{"PYTHONPATH", std::nullopt};
  EnvironmentVariable path_{"PATH", at("path").c_str()};
};

}  // namespace

TEST_CASE("the Python asked for most directly is taken, whether it has torch or not") {
  const Pythons pythons;
  const std::string option = pythons.program("option/python");
  const std::string variable = pythons.program("variable/python");
  pythons.program("path/python3");
  pythons.environment("venv", true);
  const EnvironmentVariable virtual_env("VIRTUAL_ENV", pythons.at("venv").c_str());
  const EnvironmentVariable asked("OPTRACE_PYTHON", variable.c_str());
  CHECK(choose_python(option).path == option);
  CHECK(choose_python(option).reason == "--python");
  CHECK(choose_python("").path == variable);
  CHECK(choose_python("python3").path == pythons.at("path/python3"));
  CHECK_FALSE(choose_python("python3").found_elsewhere);
}

TEST_CASE("without a Python that was asked for, the first environment with torch is taken") {
  const Pythons pythons;
  const std::string own = pythons.environment("tool", false);
  const std::string venv = pythons.environment("venv", true);
  const std::string conda = pythons.environment("conda", true);
  const std::string project = pythons.environment("project/.venv", true);
  const EnvironmentVariable own_variable("OPTRACE_OWN_PYTHON", own.c_str());
  {
    const EnvironmentVariable conda_variable("CONDA_PREFIX", pythons.at("conda").c_str());
    {
      const EnvironmentVariable venv_variable("VIRTUAL_ENV", pythons.at("venv").c_str());
      CHECK(choose_python("").path == venv);
      CHECK(choose_python("").reason == "$VIRTUAL_ENV");
      CHECK(choose_python("").found_elsewhere);
      pythons.environment("tool", true);
      CHECK(choose_python("").path == own);
      CHECK_FALSE(choose_python("").found_elsewhere);
      std::filesystem::remove_all(pythons.at("tool/lib"));
    }
    CHECK(choose_python("").path == conda);
    CHECK(choose_python("").reason == "$CONDA_PREFIX");
  }
  const PythonChoice above = choose_python("");
  CHECK(above.path == project);
  CHECK(above.reason == ".venv in " + pythons.at("project"));
  Trace trace;
  describe_choice(above, trace);
  CHECK(trace.meta.interpreter_from == above.reason);
}

TEST_CASE("a .venv that other users can change is not used") {
  const Pythons pythons;
  const std::string python = pythons.environment("project/.venv", true);
  pythons.program("path/python3");
  std::filesystem::permissions(pythons.at("project/.venv"), std::filesystem::perms::all);
  CHECK(choose_python("").path != python);
}

TEST_CASE("a Python that can't be started is refused before anything starts") {
  const PrivateFolder folder;
  const auto text = folder.path() / "text";
  std::ofstream(text) << "hello";
  CHECK_THROWS_WITH(choose_python((folder.path() / "none").string()),
                    Catch::Contains("no such file") && Catch::Contains("--python"));
  CHECK_THROWS_WITH(choose_python(text.string()), Catch::Contains("can't be run"));
  CHECK_THROWS_WITH(choose_python(folder.path().string()), Catch::Contains("can't be run"));
  CHECK_THROWS_WITH(choose_python("no-such-python"), Catch::Contains("in PATH"));
}

#include <fstream>
#include <string>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <catch2/catch.hpp>

#include "platform/error.h"
#include "platform/private_folder.h"
#include "src/choices/python_choice.h"
#include "src/commands/command.h"
#include "tests/unit/environment_variable.h"

using namespace optrace;
using namespace optrace::test;

namespace {

void make_program(const std::filesystem::path& path) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << "#!/bin/sh\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

}  // namespace

TEST_CASE("the Python asked for most directly is taken") {
  const PrivateFolder folder;
  const auto program = [&](const std::string& name) {
    make_program(folder.path() / name);
    return (folder.path() / name).string();
  };
  const std::string option = program("option/python");
  const std::string variable = program("variable/python");
  const std::string venv = program("venv/bin/python");
  program("path/python3");
  const EnvironmentVariable path("PATH", (folder.path() / "path").c_str());
  const EnvironmentVariable virtual_env("VIRTUAL_ENV", (folder.path() / "venv").c_str());
  {
    const EnvironmentVariable own("OPTRACE_PYTHON", variable.c_str());
    CHECK(choose_python(option).path == option);
    CHECK(choose_python(option).reason == "--python");
    CHECK(choose_python("").path == variable);
    CHECK(choose_python("python3").path == folder.path() / "path/python3");
  }
  const EnvironmentVariable own("OPTRACE_PYTHON", std::nullopt);
  CHECK(choose_python("").path == venv);
  CHECK(choose_python("").reason == "$VIRTUAL_ENV");
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

TEST_CASE("the command line refuses what it does not know") {
  CLI::App app;
  add_op_command(app);
  for (const std::string line :
       {"conv2d --device tpu", "conv2d --probes none", "conv2d --format xml", "conv2d --nonsense",
        "conv2d linear", "conv2d --timeout 0", "conv2d --trace"}) {
    CHECK_THROWS_AS(app.parse(line), CLI::ParseError);
  }
}

TEST_CASE("an output folder that takes no file is found before Python starts") {
  const PrivateFolder folder;
  make_program(folder.path() / "python");
  CLI::App app;
  add_op_command(app);
  for (const std::string option : {"--trace", "-o"}) {
    try {
      app.parse("conv2d " + option + " /proc/none/x --python " +
                (folder.path() / "python").string());
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.status() == ExitStatus::usage);
      CHECK(std::string(error.what()).find("/proc/none/x") != std::string::npos);
    }
  }
}

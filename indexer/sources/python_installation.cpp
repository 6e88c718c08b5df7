#include "indexer/sources/python_installation.h"

#include <cerrno>
#include <cstdlib>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "platform/error.h"
#include "platform/files/private_folder.h"
#include "platform/files/whole_file.h"
#include "platform/process/child_process.h"
#include "platform/text/json_reader.h"
#include "pytorch/installed/torch_version.h"

namespace optrace {
namespace {

// Does not import torch, which takes seconds. The string ABI is read from the symbol of a function
// that every libtorch calls. Only if that symbol is missing, torch is imported.
constexpr const char* kQuestion = R"(
import glob, importlib.util, json, os, sys, sysconfig
answer = {"yaml": importlib.util.find_spec("yaml") is not None, "torch": None}
spec = importlib.util.find_spec("torch")
if spec is not None and spec.origin is not None:
    folder = os.path.dirname(spec.origin)
    site = os.path.dirname(folder)
    includes = [sysconfig.get_paths()["include"]]
    includes += glob.glob(os.path.join(glob.escape(site), "numpy", "*core", "include"))
    includes += glob.glob(os.path.join(glob.escape(site), "nvidia", "*", "include"))
    constructor = b"_ZN3c105ErrorC1ENS_14SourceLocationE"
    library = open(os.path.join(folder, "lib", "libc10.so"), "rb").read()
    new = constructor + b"NSt7__cxx1112basic_string" in library
    if not new and constructor + b"Ss" not in library:
        import torch
        new = torch._C._GLIBCXX_USE_CXX11_ABI
    answer["torch"] = {"folder": folder, "new_string_abi": bool(new),
                       "includes": sorted(i for i in includes if os.path.isdir(i))}
json.dump(answer, open(sys.argv[1], "w"))
)";

struct Ending {
  int status = 0;
  std::string output;
};

Ending run(const std::filesystem::path& python, const std::vector<std::string>& arguments,
           const std::filesystem::path& folder) {
  const PrivateFolder scratch;
  const std::filesystem::path said = scratch.path() / "output";
  const int output = ::open(said.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (output < 0) {
    throw Error(ExitStatus::failed,
                fmt::format("cannot write {}: {}", said.string(), describe_errno(errno)),
                "Free some space in the temporary folder, or set TMPDIR to another folder.");
  }
  // Relative paths are resolved because the Python runs in another folder.
  const bool is_path = python.has_parent_path();
  ChildProcess::Options options;
  options.arguments = {(is_path ? std::filesystem::absolute(python) : python).string()};
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  options.environment = {{"PYTHONDONTWRITEBYTECODE", "1"}, {"PYTHONNOUSERSITE", "1"}};
  options.descriptors = {{output, STDOUT_FILENO}, {output, STDERR_FILENO}};
  options.working_folder = folder.string();
  Ending ending;
  try {
    ChildProcess child(options);
    ::close(output);
    ending.status = child.wait();
  } catch (...) {
    ::close(output);
    throw;
  }
  ending.output = read_file(said).value_or("");
  return ending;
}

std::string last_lines(std::string text) {
  constexpr std::size_t kEnough = 600;
  text.erase(text.find_last_not_of(" \n") + 1);
  return text.size() <= kEnough ? text : "... " + text.substr(text.size() - kEnough);
}

}  // namespace

PythonInstallation examine_python(const std::filesystem::path& python) {
  const PrivateFolder scratch;
  const std::filesystem::path answer_file = scratch.path() / "answer.json";
  const std::string remedy =
      "With --python, name a Python that has the torch wheel of the source's version.";
  const Ending ending = run(python, {"-c", kQuestion, answer_file.string()}, "/");
  if (ending.status != 0) {
    throw Error(ExitStatus::usage,
                fmt::format("the torch of {} can't be determined ({}): {}", python.string(),
                            describe_wait_status(ending.status), last_lines(ending.output)),
                remedy);
  }
  try {
    const auto answer = read_json_or_throw(read_file(answer_file).value_or(""));
    const auto& torch = answer.at("torch");
    if (torch.is_null())
      throw Error(ExitStatus::usage, fmt::format("no torch in {}", python.string()), remedy);
    PythonInstallation found;
    found.has_yaml = answer.at("yaml").get<bool>();
    found.python = python;
    found.torch_folder = torch.at("folder").get<std::string>();
    const auto version = read_torch_version(found.torch_folder);
    if (!version || !version->version) {
      throw Error(ExitStatus::usage,
                  fmt::format("{} has no version.py with its version", found.torch_folder.string()),
                  remedy);
    }
    found.torch_version = version->version->substr(0, version->version->find('+'));
    found.git_version = version->git_version.value_or("");
    found.new_string_abi = torch.at("new_string_abi").get<bool>();
    for (const auto& folder : torch.at("includes"))
      found.include_folders.emplace_back(folder.get<std::string>());
    return found;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ExitStatus::usage,
                fmt::format("{} does not behave like a Python: {}", python.string(), error.what()),
                remedy);
  }
}

void require_yaml(const PythonInstallation& python) {
  if (python.has_yaml) return;
  throw Error(ExitStatus::usage, fmt::format("no PyYAML in {}", python.python.string()),
              fmt::format("PyTorch's code generators need it: {} -m pip install pyyaml",
                          python.python.string()));
}

std::filesystem::path python_with_yaml(const PythonInstallation& python) {
  if (python.has_yaml) return python.python;
  const char* const own = std::getenv("OPTRACE_OWN_PYTHON");
  for (const char* const candidate : {own, "python3", "/usr/bin/python3"}) {
    if (candidate == nullptr) continue;
    try {
      if (run(candidate, {"-c", "import yaml"}, "/").status == 0) return candidate;
    } catch (const Error&) {
      continue;  // There is no such program.
    }
  }
  require_yaml(python);
  return {};
}

void run_python(const std::filesystem::path& python, const std::vector<std::string>& arguments,
                const std::filesystem::path& folder, const std::string& what) {
  const Ending ending = run(python, arguments, folder);
  if (ending.status != 0) {
    throw Error(ExitStatus::failed,
                fmt::format("{} failed ({}): {}", what, describe_wait_status(ending.status),
                            last_lines(ending.output)),
                "Check that the source tree is complete and unchanged.");
  }
}

}  // namespace optrace

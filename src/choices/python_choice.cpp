#include "src/choices/python_choice.h"

#include <cstdlib>
#include <optional>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/installation.h"

namespace optrace {
namespace {

bool is_executable_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

std::optional<std::filesystem::path> find_in_path(std::string_view name) {
  const char* variable = std::getenv("PATH");
  std::string_view folders = variable == nullptr ? "" : variable;
  while (!folders.empty()) {
    const std::string_view folder = folders.substr(0, folders.find(':'));
    std::filesystem::path candidate = std::filesystem::path(folder) / name;
    if (!folder.empty() && is_executable_file(candidate)) return candidate;
    folders.remove_prefix(std::min(folders.size(), folder.size() + 1));
  }
  return std::nullopt;
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

PythonChoice asked_for(const std::string& path, const std::string& reason) {
  const std::string remedy = fmt::format(
      "Give the path of a Python that has torch, such as .venv/bin/python, in {}.", reason);
  if (path.find('/') == std::string::npos) {
    if (auto found = find_in_path(path)) return {*found, reason};
    throw Error(ExitStatus::usage,
                fmt::format("no program named '{}' in PATH (from {})", path, reason), remedy);
  }
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw Error(ExitStatus::usage, fmt::format("no such file: {} (from {})", path, reason), remedy);
  }
  if (!is_executable_file(path)) {
    throw Error(ExitStatus::usage, fmt::format("{} can't be run (from {})", path, reason), remedy);
  }
  return {path, reason};
}

}  // namespace

PythonChoice choose_python(const std::string& option) {
  if (!option.empty()) return asked_for(option, "--python");
  if (const std::string path = environment("OPTRACE_PYTHON"); !path.empty()) {
    return asked_for(path, "$OPTRACE_PYTHON");
  }
  if (const std::string folder = environment("VIRTUAL_ENV"); !folder.empty()) {
    return asked_for(folder + "/bin/python", "$VIRTUAL_ENV");
  }
  const auto beside = executable_folder().parent_path() / ".venv/bin/python";
  if (is_executable_file(beside)) return {beside, "the .venv beside optrace"};
  if (auto found = find_in_path("python3")) return {*found, "python3 in PATH"};
  throw Error(ExitStatus::usage, "no Python found",
              "Name a Python that has torch with --python or $OPTRACE_PYTHON.");
}

}  // namespace optrace

#include "src/inputs/python_choice.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <system_error>
#include <vector>

#include <fmt/core.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/files/file_trust.h"
#include "platform/files/installation.h"
#include "platform/process/find_program.h"
#include "platform/text/printable_text.h"
#include "pytorch/installed/installed_torch.h"
#include "tracer/trace/trace.h"

namespace optrace {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

PythonChoice asked_for(const std::string& path, const std::string& reason) {
  const std::string remedy = fmt::format(
      "Give the path of a Python that has torch, such as .venv/bin/python, in {}.", reason);
  if (path.find('/') == std::string::npos) {
    if (auto found = find_program(path, SearchedFolders::all)) return {*found, reason, false};
    throw Error(ExitStatus::usage,
                fmt::format("no program named '{}' in PATH (from {})", path, reason), remedy);
  }
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    throw Error(ExitStatus::usage, fmt::format("no such file: {} (from {})", path, reason), remedy);
  if (!is_executable_file(path))
    throw Error(ExitStatus::usage, fmt::format("{} can't be run (from {})", path, reason), remedy);
  return {path, reason, false};
}

struct PythonCandidate {
  PythonChoice python;
  /// False for a Python that may not run only to find out whether it has torch.
  bool may_be_asked = true;
};

/// Adds the Python of an environment, if it has one.
void add_environment(const std::filesystem::path& folder, const std::string& reason,
                     bool may_be_asked, std::vector<PythonCandidate>& candidates) {
  if (folder.empty() || !is_executable_file(folder / "bin/python")) return;
  candidates.push_back({{folder / "bin/python", reason, true}, may_be_asked});
}

/// Returns the `.venv` of the working folder, or of the nearest folder above it that has one.
std::filesystem::path project_environment() {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::current_path(error);
  while (!error && !is_executable_file(folder / ".venv/bin/python")) {
    if (folder == folder.root_path()) return {};
    folder = folder.parent_path();
  }
  return error ? std::filesystem::path() : folder / ".venv";
}

/// Returns the Pythons that may be meant, in the order of preference.
std::vector<PythonCandidate> candidates() {
  std::vector<PythonCandidate> found;
  // python/optrace/_command.py sets this variable.
  if (const std::string own = environment("OPTRACE_OWN_PYTHON"); is_executable_file(own))
    found.push_back({{own, "the environment of optrace", false}});
  add_environment(environment("VIRTUAL_ENV"), "$VIRTUAL_ENV", true, found);
  add_environment(environment("CONDA_PREFIX"), "$CONDA_PREFIX", true, found);
  const std::filesystem::path beside = installation_folder().parent_path() / ".venv";
  if (const std::filesystem::path project = project_environment();
      !project.empty() && project != beside) {
    const std::string distrust = distrust_of_environment(project);
    if (distrust.empty())
      add_environment(project, fmt::format(".venv in {}", project.parent_path().string()), false,
                      found);
    else
      fmt::print(stderr, "optrace: the Python in {} is not used: {}\n", printable(project.string()),
                 printable(distrust));
  }
  if (is_executable_file(beside / "bin/python"))
    found.push_back({{beside / "bin/python", "the .venv beside optrace", false}});
  for (const char* const name : {"python3", "python"})
    if (auto path = find_program(name, SearchedFolders::all))
      found.push_back({{*path, fmt::format("{} in PATH", name), true}});
  return found;
}

bool has_torch(const PythonCandidate& candidate) {
  const std::filesystem::path& path = candidate.python.path;
  return find_torch(path) || (candidate.may_be_asked && !ask_for_torch(path).empty());
}

}  // namespace

PythonChoice choose_python(const std::string& option) {
  if (!option.empty()) return asked_for(option, "--python");
  if (const std::string path = environment("OPTRACE_PYTHON"); !path.empty())
    return asked_for(path, "$OPTRACE_PYTHON");
  const std::vector<PythonCandidate> found = candidates();
  if (found.empty()) {
    throw Error(ExitStatus::usage, "no Python found",
                "Name a Python that has torch with --python or $OPTRACE_PYTHON.");
  }
  for (const PythonCandidate& candidate : found)
    if (has_torch(candidate)) return candidate.python;
  PythonChoice first = found.front().python;
  for (const auto& [other, may_be_asked] : std::span(found).subspan(1))
    first.reason += fmt::format("; nor in {}, from {}", other.path.string(), other.reason);
  return first;
}

void describe_choice(const PythonChoice& python, Trace& trace) {
  if (!python.found_elsewhere) return;
  trace.meta.interpreter = python.path.string();
  trace.meta.interpreter_from = python.reason;
}

}  // namespace optrace

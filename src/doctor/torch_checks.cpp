#include <filesystem>
#include <utility>

#include <fmt/core.h>

#include "platform/elf/module_symbols.h"
#include "platform/process/child_process.h"
#include "platform/text/joined.h"
#include "pytorch/installed/torch_version.h"
#include "src/doctor/doctor_checks.h"
#include "src/inputs/selected_index.h"
#include "tracer/connection/target_description.h"

namespace optrace {

FoundPython check_python(const std::string& python_option) {
  FoundPython found{.choice = std::nullopt, .check = {.id = "python"}};
  try {
    found.choice = choose_python(python_option);
    found.check.found =
        fmt::format("{} (from {})", found.choice->path.string(), found.choice->reason);
    found.check.facts = {{"path", found.choice->path.string()}, {"reason", found.choice->reason}};
  } catch (const Error& error) {
    if (!python_option.empty()) throw;
    found.check = failed_check("python", CheckState::missing, error);
  }
  return found;
}

FoundTorch check_torch(const PythonChoice& python) {
  FoundTorch found{.torch = find_torch(python.path), .check = {.id = "torch"}};
  if (!found.torch) {
    // A Python may have further folders, which only it knows.
    if (const std::filesystem::path folder = ask_for_torch(python.path); !folder.empty())
      if (const auto version = read_torch_version(folder); version && version->version)
        found.torch = InstalledTorch{.python = python.path,
                                     .folder = folder,
                                     .version = *version->version,
                                     .git_version = version->git_version.value_or("")};
  }
  if (!found.torch) {
    found.check.state = CheckState::missing;
    found.check.found = fmt::format("{} has no torch", python.path.string());
    found.check.remedy = fmt::format("{} -m pip install torch", shell_word(python.path.string()));
    return found;
  }
  const InstalledTorch& torch = *found.torch;
  const auto version = read_torch_version(torch.folder);
  const std::string cuda = version ? version->cuda.value_or("") : "";
  found.check.found =
      fmt::format("{}, commit {}, {}, in {}", torch.version,
                  torch.git_version.empty() ? "unknown" : torch.git_version,
                  cuda.empty() ? "built without CUDA" : fmt::format("built with CUDA {}", cuda),
                  torch.folder.string());
  found.check.facts = {{"version", torch.version},
                       {"git_version", torch.git_version},
                       {"cuda", cuda},
                       {"folder", torch.folder.string()}};
  return found;
}

DoctorCheck check_symbols(const InstalledTorch& torch) {
  DoctorCheck check{.id = "symbols"};
  std::vector<std::string> stripped;
  std::vector<DoctorFact> libraries;
  try {
    for (const std::filesystem::path& path : torch_libraries(torch.folder, false)) {
      const ModuleSymbols library(path);
      const std::string name = path.filename().string();
      libraries.push_back(
          {name, std::vector<DoctorFact>{{"build_id", std::string(library.build_id())},
                                         {"stripped", library.stripped()}}});
      if (library.stripped()) stripped.push_back(name);
    }
  } catch (const Error& error) {
    return failed_check("symbols", CheckState::missing, error);
  }
  if (!libraries.empty()) check.facts = {{"libraries", std::move(libraries)}};
  if (stripped.empty()) {
    check.found = "torch's libraries have the names of all their functions";
    return check;
  }
  check.state = CheckState::limited;
  check.found =
      fmt::format("{}: stripped, so only exported functions have names", joined(stripped, ", "));
  check.remedy = fmt::format("{} -m pip install --force-reinstall --no-deps torch=={}",
                             shell_word(torch.python.string()), torch.version);
  return check;
}

DoctorCheck check_index(const std::string& python_option) {
  DoctorCheck check{.id = "index"};
  try {
    const SelectedIndex choice = choose_index(python_option);
    check.facts = {{"path", choice.index.path().string()},
                   {"torch_version", std::string(choice.index.torch_version())},
                   {"git_version", std::string(choice.index.git_version())},
                   {"exact", choice.exact}};
    if (choice.exact) {
      check.found = fmt::format("exact lines, from {}", choice.index.path().string());
      return check;
    }
    check.state = CheckState::limited;
    check.found = fmt::format("approximate lines (~), those of torch {}, from {}",
                              choice.index.torch_version(), choice.index.path().string());
    check.remedy = "optrace source fetch";
  } catch (const Error& error) {
    return failed_check("index", CheckState::limited, error);
  }
  return check;
}

}  // namespace optrace

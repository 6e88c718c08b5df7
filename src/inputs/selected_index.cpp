#include "src/inputs/selected_index.h"

#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "indexer/builders/on_demand.h"
#include "indexer/store/index_catalogue.h"
#include "indexer/store/source_link.h"
#include "platform/error.h"
#include "platform/text/printable_text.h"
#include "report/merge/trace_index.h"
#include "src/inputs/background_index.h"
#include "src/terminal/standard_output.h"

namespace optrace {

SelectedIndex choose_index(const std::string& python_option) {
  std::vector<std::string> notices;
  std::optional<InstalledTorch> torch;
  std::string absence;
  try {
    const PythonChoice python = choose_python(python_option);
    torch = find_torch(python.path);
    if (!torch)
      absence = fmt::format("no torch found for {} ({})", python.path.string(), python.reason);
  } catch (const Error& error) {
    // A Python that was asked for must exist. Otherwise none is needed to look up a name.
    if (!python_option.empty() || std::getenv("OPTRACE_PYTHON") != nullptr) throw;
    absence = error.what();
  }
  // Without a torch, the newest index is most likely the right one.
  constexpr std::string_view kNewest = "9999.0.0";
  std::optional<Index> index =
      find_index(torch ? std::string_view(torch->version) : kNewest,
                 torch ? std::string_view(torch->git_version) : std::string_view(), &notices);
  if (!index) {
    throw Error(ExitStatus::usage, "there is no index of PyTorch's source",
                "`optrace source add DIR` creates one from a PyTorch source tree.");
  }
  const bool exact = torch && is_exact_source(*index, torch->version, torch->git_version);
  if (!torch) {
    notices.push_back(
        fmt::format("{}; the answers are for torch {}", absence, index->torch_version()));
  } else if (!exact) {
    const std::string making = make_index_in_background(torch->python, torch->version);
    notices.push_back(fmt::format(
        "there is no index of torch {}; lines marked ~ are those of torch {}{}", torch->version,
        index->torch_version(),
        making.empty() ? " (`optrace source add --wheel` makes an index of the installed torch)"
                       : ". " + making));
  }
  std::vector<Index> projects = find_project_indexes(&notices);
  return {std::move(*index), std::move(projects), std::move(torch), exact, std::move(notices)};
}

bool index_on_demand(const std::vector<std::string>& names, const std::string& python_option,
                     SelectedIndex& choice) {
  if (!lacks(choice.index, names)) return false;
  // If indexing fails, the existing contents can still be shown.
  try {
    add_on_demand(choice.index, names);
  } catch (const Error& error) {
    if (error.status() == ExitStatus::interrupted) throw;
    choice.notices = {fmt::format("not indexed on demand: {} {}", error.what(), error.remedy())};
    return false;
  }
  choice = choose_index(python_option);
  choice.notices.clear();
  return true;
}

void prepare_index(const std::filesystem::path& python, const Trace& trace) {
  const std::string& version = trace.meta.torch.version;
  const std::optional<Index> index = find_index_of(trace);
  if (version.empty() || (index && is_exact_source(*index, version, trace.meta.torch.git_version)))
    return;
  if (const std::string making = make_index_in_background(python, version); !making.empty())
    write_message(fmt::format("there is no index of torch {}. {}", version, making));
}

void print_notices(SelectedIndex& choice) {
  for (const std::string& notice : choice.notices) write_message(notice);
  choice.notices.clear();
}

std::vector<const Index*> projects_of(const SelectedIndex& choice) {
  std::vector<const Index*> projects;
  projects.reserve(choice.projects.size());
  for (const Index& project : choice.projects) projects.push_back(&project);
  return projects;
}

IndexedSource source_of(const SelectedIndex& choice) {
  IndexedSource source;
  if (choice.torch) {
    source.torch_version = choice.torch->version;
    source.torch_git_version = choice.torch->git_version;
  }
  source.version = choice.index.torch_version();
  source.git_version = choice.index.git_version();
  source.match = match_of(choice.index, choice.exact);
  return source;
}

}  // namespace optrace

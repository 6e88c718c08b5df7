#include "src/inputs/index_operand.h"

#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/core.h>

#include "indexer/sources/source_fetch.h"
#include "indexer/sources/source_tree.h"
#include "indexer/store/index_catalogue.h"
#include "indexer/store/source_link.h"
#include "platform/error.h"
#include "platform/process/child_process.h"
#include "platform/text/joined.h"
#include "platform/text/printable_text.h"
#include "pytorch/installed/installed_torch.h"
#include "src/inputs/python_choice.h"

namespace optrace {
namespace {

namespace fs = std::filesystem;

// Returns "2.6.0, 2.7.1": the versions that have an index.
std::string known_versions() {
  std::set<std::string> versions;
  for (const CataloguedIndex& candidate : list_indexes()) {
    try {
      versions.insert(printable(candidate.open().torch_version()));
    } catch (const Error&) {
      continue;  // `optrace source list` shows what is wrong with it.
    }
  }
  return versions.empty() ? "none" : joined(versions, ", ");
}

// Returns the index of exactly this version; of this commit, if there is one.
std::optional<Index> index_of(std::string_view version, std::string_view git_version) {
  std::optional<Index> found = find_index(version, git_version);
  if (found && found->torch_version() != without_local_version(version)) found.reset();
  return found;
}

[[noreturn]] void refuse(const std::string& what, const std::string& remedy) {
  throw Error(ExitStatus::usage, fmt::format("there is no index of {}", what),
              fmt::format("{} There are indexes of: {}.", remedy, known_versions()));
}

Index index_of_python(const fs::path& python) {
  const std::optional<InstalledTorch> torch = find_torch(python);
  if (!torch) {
    throw Error(ExitStatus::usage, fmt::format("{} has no torch", python.string()),
                "Name a Python with torch, a version, an index file or a source tree.");
  }
  if (auto found = index_of(torch->version, torch->git_version)) return std::move(*found);
  refuse(fmt::format("torch {} of {}", printable(torch->version), python.string()),
         fmt::format("`optrace source fetch --python {}` downloads its source and makes one.",
                     shell_word(python.string())));
}

Index index_of_tree(const fs::path& folder) {
  const SourceTree tree = open_source_tree(folder);
  if (auto found = index_of(tree.version, checked_out_commit(tree.folder)))
    return std::move(*found);
  refuse(fmt::format("{}, which is PyTorch {}", folder.string(), printable(tree.version)),
         fmt::format("`optrace source add {}` makes one.", shell_word(folder.string())));
}

Index index_at(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    throw Error(ExitStatus::usage, fmt::format("{} does not exist", path.string()),
                "Name an index file, a version such as 2.6.0, a Python, or a source tree.");
  }
  if (path.extension() == ".whl") {
    throw Error(ExitStatus::usage,
                fmt::format("{} is a wheel that is not installed", path.string()),
                "Install it into a virtual environment, and name the folder of that.");
  }
  if (fs::is_directory(status)) {
    const fs::path python = path / "bin" / "python";
    return fs::exists(python, error) ? index_of_python(python) : index_of_tree(path);
  }
  const bool executable = (status.permissions() & fs::perms::owner_exec) != fs::perms::none;
  return executable ? index_of_python(path) : Index::open(path);
}

}  // namespace

Index open_index_operand(const std::string& name) {
  std::error_code error;
  if (name.find('/') != std::string::npos || fs::exists(name, error)) return index_at(name);
  const bool is_version = name.empty() || (name[0] >= '0' && name[0] <= '9');
  if (!is_version) return index_of_python(choose_python(name).path);
  if (auto found = index_of(name, {})) return std::move(*found);
  refuse(fmt::format("torch {}", printable(name)),
         "`optrace source fetch` or `optrace source add DIR` makes one.");
}

}  // namespace optrace

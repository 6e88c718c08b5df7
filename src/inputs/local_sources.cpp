#include "src/inputs/local_sources.h"

#include <algorithm>
#include <iterator>
#include <system_error>

#include "indexer/sources/source_tree.h"
#include "indexer/sources/work_folder.h"
#include "platform/error.h"
#include "tracer/connection/generated_code_cache.h"

namespace optrace {
namespace {

bool is_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

}  // namespace

SourceCopies indexed_trees(std::string_view version) {
  SourceCopies trees;
  for (const KeptWork& work : list_kept_work()) {
    try {
      if (open_source_tree(work.tree).version != version) continue;
    } catch (const Error&) {
      continue;  // No longer a PyTorch tree.
    }
    trees.push_back({"", work.tree});
    trees.push_back({"", work.path / "generated"});
  }
  return trees;
}

LocalSources::LocalSources(const SelectedIndex& choice)
    : LocalSources(choice.torch ? choice.torch->folder : std::filesystem::path(),
                   std::string(choice.index.torch_version())) {}

LocalSources::LocalSources(const Report& report)
    : LocalSources(report.recording.torch_folder, report.source_version) {}

void LocalSources::add_tree(const std::filesystem::path& folder) {
  copies().push_back({"", folder});
}

SourceCopies& LocalSources::copies() const {
  if (!copies_) {
    copies_ = torch_folder_.empty() ? SourceCopies() : copies_in_wheel(torch_folder_);
    std::ranges::move(indexed_trees(version_), std::back_inserter(*copies_));
  }
  return *copies_;
}

std::filesystem::path LocalSources::find(const std::string& file) const {
  if (file.empty() || file.starts_with('<')) return {};
  if (file.starts_with('/'))
    return is_file(file) ? std::filesystem::path(file) : copy_of_generated_file(file);
  if (std::filesystem::path copy = find_copy(copies(), file); !copy.empty()) return copy;
  std::error_code error;
  const std::filesystem::path here = std::filesystem::absolute(file, error);
  return !error && file.ends_with(".py") && is_file(here) ? here : std::filesystem::path();
}

FileLinks::Find find_in(LocalSources sources) {
  return [sources = std::move(sources)](const std::string& file) { return sources.find(file); };
}

}  // namespace optrace

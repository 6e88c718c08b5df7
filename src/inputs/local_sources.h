#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "present/file_links.h"
#include "report/formats/html/source_copies.h"
#include "report/model/report.h"
#include "src/inputs/selected_index.h"

namespace optrace {

/// Returns the source trees of a PyTorch version that were indexed here, and the code that was
/// generated for them.
SourceCopies indexed_trees(std::string_view version);

/// Finds the files that reports and answers name on this machine: in the wheel, and in the source
/// trees that were indexed here.
class LocalSources {
 public:
  /// `torch_folder` is site-packages/torch; empty if there is none. `version` is the PyTorch
  /// version of the source.
  LocalSources(std::filesystem::path torch_folder, std::string version)
      : torch_folder_(std::move(torch_folder)), version_(std::move(version)) {}
  explicit LocalSources(const SelectedIndex& choice);
  explicit LocalSources(const Report& report);

  /// Also searches this source tree, after the others.
  void add_tree(const std::filesystem::path& folder);

  /// Returns the path of a file, which is absolute or relative to a source tree. A relative file
  /// that is not PyTorch's is searched for in the working folder. Empty if it is not there.
  std::filesystem::path find(const std::string& file) const;

 private:
  SourceCopies& copies() const;

  std::filesystem::path torch_folder_;
  std::string version_;
  mutable std::optional<SourceCopies> copies_;  // Listed when first needed.
};

/// Returns the search in `sources`, for links.
FileLinks::Find find_in(LocalSources sources);

}  // namespace optrace

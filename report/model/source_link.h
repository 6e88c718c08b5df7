#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "indexer/store/index_store.h"

namespace optrace {

/// Builds GitHub links to lines of PyTorch's source.
class SourceLink {
 public:
  SourceLink() = default;
  /// `git_version` is a commit of 40 hex digits. If it is not, the links use the tag of the
  /// release; for a version that is not a release (`2.7.0.dev2025`), there are no links.
  SourceLink(std::string_view git_version, std::string_view torch_version);

  /// Returns an empty string for files outside of PyTorch's repository: generated code, submodules.
  std::string of_native(std::string_view file, std::uint32_t line) const;
  /// Returns an empty string for files that are not part of torch.
  std::string of_python(std::string_view file, std::uint32_t line) const;

 private:
  std::string link(std::string_view file, std::uint32_t line) const;
  std::string revision_;
};

/// Returns the link to another line of the same file; empty if `url` has no line.
std::string url_of_line(const std::string& url, std::uint32_t line);

/// Returns true for a file that PyTorch's build generates. Neither the repository nor a fresh
/// checkout contains it.
bool is_generated_source(std::string_view file);

/// Returns `2.6.0` for `2.6.0+cu124`.
std::string_view without_local_version(std::string_view torch_version);

/// Returns true if `index` was made from the source of that torch.
bool is_exact_source(const Index& index, std::string_view torch_version,
                     std::string_view git_version);

/// Returns a Python file's path in PyTorch's source tree: `torch/nn/functional.py`. Paths of files
/// that are not below the parent of `torch_folder` are returned unchanged.
std::string relative_to_torch(std::string_view file, std::string_view torch_folder);

}  // namespace optrace

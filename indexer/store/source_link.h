#pragma once

#include <cstdint>
#include <optional>
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

  // A link to line 0, which stands for an unknown line, is one to the file.

  /// Returns an empty string for files outside of PyTorch's repository: generated code, submodules.
  std::string of_native(std::string_view file, std::uint32_t line) const;
  /// Returns an empty string for files that are not part of torch.
  std::string of_python(std::string_view file, std::uint32_t line) const;

 private:
  std::string link(std::string_view file, std::uint32_t line) const;
  std::string revision_;
};

/// Returns the link to another line of the same file; empty if `url` is.
std::string url_of_line(const std::string& url, std::uint32_t line);

/// Returns `2.6.0` for `2.6.0+cu124`.
std::string_view without_local_version(std::string_view torch_version);

/// Returns true if `index` is of that torch: made from its source or from its wheel.
bool is_exact_source(const Index& index, std::string_view torch_version,
                     std::string_view git_version);

/// Returns true if `index` was made from a wheel. Some of its lines are approximate.
bool made_from_wheel(const Index& index);

/// The relation of the lines of an index to a torch.
struct IndexMatch {
  bool of_torch = false;    ///< The index is of that torch: is_exact_source().
  bool from_wheel = false;  ///< made_from_wheel()
  bool exact = false;       ///< The index is of that torch, and all of its lines are exact.

  /// Returns true if a line of the index is exact for that torch. `approximate` is the line's.
  bool is_exact(const std::optional<LineInterval>& approximate) const {
    return of_torch && !approximate;
  }
};

/// `of_torch` as in the result.
IndexMatch match_of(const Index& index, bool of_torch);

/// Returns what an index was made from, as in JSON: `source` or `wheel`.
std::string_view made_from(bool from_wheel);

/// Returns a Python file's path in PyTorch's source tree: `torch/nn/functional.py`. Paths of files
/// that are not below the parent of `torch_folder` are returned unchanged.
std::string relative_to_torch(std::string_view file, std::string_view torch_folder);

}  // namespace optrace

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "indexer/store/index_store.h"

namespace optrace {

/// Where GitHub shows a line of PyTorch's source.
class SourceLink {
 public:
  SourceLink() = default;
  /// `git_version` is a commit of 40 hex digits; where it is none, the release's tag stands in,
  /// and without a release (`2.7.0.dev2025`) there are no links.
  SourceLink(std::string_view git_version, std::string_view torch_version);

  /// Empty for what is not in PyTorch's repository: generated code, submodules.
  std::string of_native(std::string_view file, std::uint32_t line) const;
  /// Empty for what is not torch's own.
  std::string of_python(std::string_view file, std::uint32_t line) const;

 private:
  std::string link(std::string_view file, std::uint32_t line) const;
  std::string revision_;
};

/// True for a file that PyTorch's build writes, so that neither the repository nor a fresh checkout
/// has it.
bool is_generated_source(std::string_view file);

/// `2.6.0` of `2.6.0+cu124`.
std::string_view without_local_version(std::string_view torch_version);

/// True if `index` was made from the source of that torch.
bool is_exact_source(const Index& index, std::string_view torch_version,
                     std::string_view git_version);

/// A Python file as it lies in PyTorch's tree: `torch/nn/functional.py`. Files that lie elsewhere
/// than `torch_folder` and what is installed beside it stay as they are.
std::string relative_to_torch(std::string_view file, std::string_view torch_folder);

}  // namespace optrace

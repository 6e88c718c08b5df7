#pragma once

#include <string>

#include "indexer/store/source_link.h"

namespace optrace {

/// The source that the lines of an answer refer to, for display.
struct IndexedSource {
  std::string version{};            ///< PyTorch version of the index.
  std::string git_version{};        ///< Its commit; empty if unknown.
  std::string torch_version{};      ///< Version of the installed torch; empty without one.
  std::string torch_git_version{};  ///< Its commit; empty if unknown.
  IndexMatch match{};               ///< Of the index and the installed torch.
};

}  // namespace optrace

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "indexer/frontend/driver.h"

namespace optrace {

struct MakeIndexOptions {
  std::filesystem::path source;   ///< A PyTorch source tree.
  std::filesystem::path python;   ///< A Python with the torch wheel of the same version.
  std::filesystem::path output;   ///< Empty: the user's index folder.
  std::vector<std::string> only;  ///< Shell patterns of unit names; empty: all units.
  int jobs = 0;  ///< Worker processes; 0: one a processor, fewer on a machine with little memory.
  std::uint64_t worker_memory =
      0;  ///< Bytes that each may have; 0: its share of most of the memory.
};

struct MadeIndex {
  std::filesystem::path path;
  std::string torch_version;
  std::size_t units = 0;
  std::size_t parsed = 0;  ///< Units that had to be parsed: the others are as they were.
  std::vector<FailedUnit> failed;
};

/// Indexes a source tree, of which only what changed since the last time is parsed. The index
/// appears whole or not at all; one that was there before stays until then. Progress goes to
/// standard error. Throws Error(usage) for a folder or a Python that does not fit, Error(failed)
/// when generating code or every unit fails, Error(interrupted).
MadeIndex make_index(const MakeIndexOptions& options);

}  // namespace optrace

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "indexer/frontend/driver.h"

namespace optrace {

struct MakeIndexOptions {
  std::filesystem::path source;   ///< A PyTorch source tree.
  std::filesystem::path python;   ///< A Python with the torch wheel of the same version.
  std::filesystem::path output;   ///< Empty: the user's index folder.
  std::vector<std::string> only;  ///< Shell patterns of unit names; empty: all units.
  int jobs = 0;  ///< Number of workers; 0: one per processor, fewer if memory is small.
  /// Memory limit of each worker in bytes; 0: an equal share of most of the memory.
  std::uint64_t worker_memory = 0;
};

struct MadeIndex {
  std::filesystem::path path;
  std::string torch_version;
  std::size_t units = 0;
  std::size_t parsed = 0;  ///< Number of units that were parsed; the others had not changed.
  std::vector<FailedUnit> failed;
  /// The files of the source tree that are not what the wheel was built from.
  std::set<std::string> differing;
};

/// Indexes a source tree and parses only the units that changed since the last run. Writes the
/// index atomically; an existing index is kept until then. Reports progress on standard error.
/// Throws Error(usage) for an unsuitable folder or Python, Error(failed) if code generation or
/// every unit fails, and Error(interrupted).
MadeIndex make_index(const MakeIndexOptions& options);

}  // namespace optrace

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "indexer/sources/file_hashes.h"

namespace optrace {

/// The result of parsing a unit, kept for the next run.
class CachedUnit {
 public:
  CachedUnit(std::uint64_t digest, std::uint64_t times, std::string compressed)
      : digest_(digest), times_(times), compressed_(std::move(compressed)) {}

  /// Digest of all inputs: the arguments, and the contents of all files that the unit read.
  std::uint64_t digest() const { return digest_; }

  /// Digest of the modification times of the files that the unit read. clang rejects a precompiled
  /// header if one of its files has been modified since, even if the content is the same.
  std::uint64_t times() const { return times_; }

  /// The worker's output, without the dependencies. Throws Error(failed) if it is corrupt, which
  /// UnitCache has ruled out by a checksum.
  std::string findings() const;

 private:
  std::uint64_t digest_;
  std::uint64_t times_;
  std::string compressed_;
};

/// Stores the result of each unit in a folder, one file per unit. The folder may be deleted at any
/// time.
class UnitCache {
 public:
  /// Creates `folder` if it does not exist. `hashes` must outlive the cache.
  UnitCache(std::filesystem::path folder, FileHashes& hashes);

  /// Returns the entry of the unit `name`. Returns nothing if there is no entry with the same
  /// `identity` (a hash of everything that the result depends on except the files that the unit
  /// reads), if a file that the unit read has changed, or if the entry is corrupt.
  std::optional<CachedUnit> find(std::string_view name, std::uint64_t identity) const;

  /// Stores a worker's result. Its lines `D path` name the files that the unit read; `source` is
  /// added to them. Throws Error(failed) if the entry can't be written.
  CachedUnit keep(std::string_view name, std::uint64_t identity, const std::string& source,
                  std::string_view result) const;

 private:
  std::filesystem::path path_of(std::string_view name) const;

  std::filesystem::path folder_;
  FileHashes& hashes_;
};

}  // namespace optrace

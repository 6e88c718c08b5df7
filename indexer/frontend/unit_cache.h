#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "indexer/sources/file_hashes.h"

namespace optrace {

/// What a unit gave when it was parsed, kept for the next run.
class CachedUnit {
 public:
  CachedUnit(std::uint64_t digest, std::uint64_t times, std::string compressed)
      : digest_(digest), times_(times), compressed_(std::move(compressed)) {}

  /// Of everything that it was made from: arguments, and the contents of all files that it read.
  std::uint64_t digest() const { return digest_; }

  /// Of when the files that it read were last written. clang refuses a precompiled header when a
  /// file that it was made from was touched since, changed or not.
  std::uint64_t times() const { return times_; }

  /// What the worker wrote, without its dependencies. Throws Error(failed) when it is broken, which
  /// UnitCache has checked.
  std::string findings() const;

 private:
  std::uint64_t digest_;
  std::uint64_t times_;
  std::string compressed_;
};

/// Keeps what each unit gave in a folder, a file for each. The folder may be lost at any time.
class UnitCache {
 public:
  /// `folder` is made when it is not there. `hashes` outlives the cache.
  UnitCache(std::filesystem::path folder, FileHashes& hashes);

  /// Nothing unless the unit `name` was kept with the same `identity` (whatever its result depends
  /// on besides the files that it reads), every file that it read is as it was then, and the entry
  /// is whole.
  std::optional<CachedUnit> find(std::string_view name, std::uint64_t identity) const;

  /// Keeps a worker's result, in which lines `D path` name the files that it read. `source` is one
  /// of them. Throws Error(failed) when the disk does not take it.
  CachedUnit keep(std::string_view name, std::uint64_t identity, const std::string& source,
                  std::string_view result) const;

 private:
  std::filesystem::path path_of(std::string_view name) const;

  std::filesystem::path folder_;
  FileHashes& hashes_;
};

}  // namespace optrace

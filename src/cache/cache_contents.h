#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace optrace {

/// A file or folder of the cache that is removed as a whole: the libraries of one build, the traces
/// of one program.
struct CacheEntry {
  std::string name;
  std::uint64_t bytes = 0;  ///< The sizes of its files. Links are not followed.
  std::chrono::system_clock::time_point changed;  ///< The last change of any of its files.
};

/// What the cache has of one kind.
struct CachePart {
  std::string_view folder;    ///< Its name in the cache: "plans".
  std::string_view contents;  ///< "where probes can be placed in libraries"
  std::vector<CacheEntry> entries;
  std::size_t foreign = 0;  ///< Files and folders in it that optrace did not make.
};

/// Returns all kinds, also those of which there is nothing; none without a cache. Entries that
/// changed within `older_than` are left out. A folder that is a symbolic link counts as foreign,
/// with all that it contains. Throws Error(interrupted).
std::vector<CachePart> list_cache(std::optional<std::chrono::seconds> older_than = std::nullopt);

std::uint64_t bytes_of(const CachePart& part);

/// An entry that was not removed.
struct KeptEntry {
  std::filesystem::path path;
  std::string reason;
};

/// What was removed of one kind.
struct CleanedPart {
  std::string_view folder;
  std::size_t removed = 0;  ///< Number of entries.
  std::uint64_t bytes = 0;  ///< Their size.
  std::vector<KeptEntry> kept;
};

/// Removes the entries of `part` from the cache, except those that another optrace is using. Never
/// follows a symbolic link. Throws Error(interrupted) between two entries.
CleanedPart clean(const CachePart& part);

/// Parses an age: `30d`, `12h`, `2w`. Returns nullopt for another text.
std::optional<std::chrono::seconds> parse_age(std::string_view text);

}  // namespace optrace

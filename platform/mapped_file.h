#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace optrace {

/// A regular file mapped read-only for as long as the object lives. The mapping is private: it
/// shows later writes to the file only by accident, so callers map what nobody rewrites in place.
class MappedFile {
 public:
  /// Throws Error(usage) when `path` can't be opened, is no regular file, or is empty.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const noexcept { return bytes_; }

  /// Gives the pages that were read so far back to the system: to be called after, or now and then
  /// within, a pass over much of a large file. What is read again is mapped again.
  void release_pages() const noexcept;

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::span<const std::byte> bytes_;
  std::filesystem::path path_;
};

}  // namespace optrace

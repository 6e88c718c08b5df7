#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include <signal.h>

#include "platform/files/descriptor.h"

namespace optrace {

/// While it lives, a MappedFile that another process truncates reads as zeros from there on,
/// instead of ending this process with SIGBUS. At most one at a time. Only for our own programs: a
/// traced process handles its signals itself.
class TruncationGuard {
 public:
  TruncationGuard();
  ~TruncationGuard();
  TruncationGuard(const TruncationGuard&) = delete;
  TruncationGuard& operator=(const TruncationGuard&) = delete;

 private:
  struct sigaction previous_{};
};

/// The bytes of a regular file, read-only, for as long as the object lives.
///
/// A file of this user or of root is mapped. The mapping is private: it may or may not show later
/// writes to the file. A file of any other user is read, each part once, when it is first
/// requested, so that it can't change between a check and its use. Several threads may use the
/// object once bytes() was called.
class MappedFile {
 public:
  /// Trust::none: the file is read, whoever owns it.
  enum class Trust { by_owner, none };

  /// Throws Error(usage) if `path` can't be opened, is not a regular file, or is empty.
  explicit MappedFile(const std::filesystem::path& path, Trust trust = Trust::by_owner);

  /// Uses the open file `file`; `path` is for messages. Throws as above.
  MappedFile(Descriptor file, std::filesystem::path path, Trust trust);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::size_t size() const noexcept { return bytes_.size(); }

  /// The whole file.
  std::span<const std::byte> bytes() const { return load(bytes_); }

  /// Returns `size` bytes at `offset`, or an empty span if they don't lie inside.
  std::span<const std::byte> part(std::uint64_t offset, std::uint64_t size) const;

  /// Same as part(), but the bytes must be passed to load() before they are read.
  std::span<const std::byte> reserve(std::uint64_t offset, std::uint64_t size) const;
  std::span<const std::byte> load(std::span<const std::byte> reserved) const;

  /// True if the file was found to be shorter than when it was opened. The missing part reads as
  /// zeros.
  bool was_cut() const noexcept;

  /// Returns the pages that were read so far to the system. Call it after a pass over much of a
  /// large file, or now and then during it. Pages that are read again are mapped again.
  void release_pages() const noexcept;

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  /// For a file that is read, not mapped.
  struct Reading {
    Descriptor file;
    std::vector<bool> blocks;  ///< True for the blocks that were read.
    bool cut = false;
  };
  void map(const Descriptor& file, std::size_t size);
  void prepare_reading(Descriptor file, std::size_t size);
  void read_block(std::size_t block) const;

  std::span<const std::byte> bytes_;
  std::filesystem::path path_;
  std::size_t guarded_ = 0;           ///< Index in TruncationGuard's table, plus 1; 0: none.
  std::unique_ptr<Reading> reading_;  ///< Null: the file is mapped.
};

}  // namespace optrace

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include <signal.h>

#include "platform/descriptor.h"

namespace optrace {

/// While one lives, a MappedFile that is made smaller by others shows zeros from there on, instead
/// of ending this process with SIGBUS. At most one at a time, for a program of our own: not within
/// somebody else's process, whose signals are its own.
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
/// A file of this user's or of root's is mapped. The mapping is private: it shows later writes to
/// the file only by accident. What belongs to anybody else is read, each part once, when it is
/// first asked for: nobody changes it between a check and the use. Several threads may use it once
/// bytes() was called.
class MappedFile {
 public:
  /// Trust::none: it is read, whoever owns it.
  enum class Trust { by_owner, none };

  /// Throws Error(usage) when `path` can't be opened, is no regular file, or is empty.
  explicit MappedFile(const std::filesystem::path& path, Trust trust = Trust::by_owner);

  /// What `file` has open; `path` is for messages. Throws as above.
  MappedFile(Descriptor file, std::filesystem::path path, Trust trust);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::size_t size() const noexcept { return bytes_.size(); }

  /// All of it.
  std::span<const std::byte> bytes() const { return load(bytes_); }

  /// `size` bytes at `offset`, or none if they don't lie inside.
  std::span<const std::byte> part(std::uint64_t offset, std::uint64_t size) const;

  /// As part(), but the bytes must go through load() before anybody looks at them.
  std::span<const std::byte> reserve(std::uint64_t offset, std::uint64_t size) const;
  std::span<const std::byte> load(std::span<const std::byte> reserved) const;

  /// Whether the file was found shorter than it was when it was opened: what was missing is zeros.
  bool was_cut() const noexcept;

  /// Gives the pages that were read so far back to the system: to be called after, or now and then
  /// within, a pass over much of a large file. What is read again is mapped again.
  void release_pages() const noexcept;

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  /// For a file that is read.
  struct Reading {
    Descriptor file;
    std::vector<bool> blocks;  ///< Which are there.
    bool cut = false;
  };
  void map(const Descriptor& file, std::size_t size);
  void prepare_reading(Descriptor file, std::size_t size);
  void read_block(std::size_t block) const;

  std::span<const std::byte> bytes_;
  std::filesystem::path path_;
  std::size_t guarded_ = 0;  ///< Its place among those that TruncationGuard looks after, + 1.
  std::unique_ptr<Reading> reading_;  ///< Null: it is mapped.
};

}  // namespace optrace

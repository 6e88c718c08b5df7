#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace optrace {

// Whose files may be compiled, loaded or remembered, and how one content of a file is told from
// another. Nobody but root can set a file's time of change, so what these say can't be forged by
// who may only write to the file.

/// One state of a file: changing its content or its attributes gives another.
struct FileState {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;     ///< Bytes.
  std::int64_t modified = 0;  ///< Nanoseconds since the epoch.
  std::int64_t changed = 0;   ///< As well, of the attributes too (ctime).
  std::uint32_t owner = 0;    ///< User id.

  bool operator==(const FileState&) const = default;
};

/// The state of what `path` leads to; nothing where that is no regular file or can't be seen.
std::optional<FileState> state_of(const std::filesystem::path& path);

/// Whether a change that follows shows in the state: the clocks of file systems tick in
/// milliseconds.
bool is_settled(const FileState& state);

/// In one word.
std::string text_of(const FileState& state);

/// 32 hex digits that tell the bytes of the file from others (XXH3, 128 bits); nothing if it can't
/// be read. Who writes two files can give both the same digits on purpose, so this is for files of
/// ours only. Takes about 0.1 s a GB.
std::optional<std::string> content_hash(const std::filesystem::path& path);

/// Whether a file belongs to the command's own user or to root.
bool is_ours(const FileState& state);

/// Why others than the command's own user and root could change what `path` leads to: the first
/// part of the path, and what is wrong with it. Empty where nobody else can. What counts is the
/// owner of the file and of every folder above it, and who may write to them (a folder with the
/// sticky bit is fine; so is the user's own group, and one that has no other members).
std::string distrust_of(const std::filesystem::path& path);

}  // namespace optrace

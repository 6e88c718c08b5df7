#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace optrace {

// Checks which files may be compiled, loaded or cached, and distinguishes the contents of files.
// Only root can set a file's change time, so a user who may only write to a file can't forge the
// results.

/// The state of a file. Changing its content or its attributes gives another state.
struct FileState {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;     ///< In bytes.
  std::int64_t modified = 0;  ///< Nanoseconds since the epoch.
  std::int64_t changed = 0;   ///< Likewise, including changes of attributes (ctime).
  std::uint32_t owner = 0;    ///< User id.

  bool operator==(const FileState&) const = default;
};

/// Returns the state of the file that `path` leads to; nullopt if it is not a regular file or is
/// not visible.
std::optional<FileState> state_of(const std::filesystem::path& path);

/// Returns true if any later change will change the state. (The clocks of file systems tick in
/// milliseconds.)
bool is_settled(const FileState& state);

/// Returns the state as one word.
std::string text_of(const FileState& state);

/// A part of a file.
struct FilePart {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

/// Returns a hash of the file's content (XXH3, 128 bits), less the bytes of `left_out`, which
/// lies inside, as 32 hex digits; nullopt if it can't be read. A user who writes two files can give
/// both the same hash on purpose, so use it only for files of ours. Takes about 0.2 s per GB.
std::optional<std::string> content_hash(const std::filesystem::path& path,
                                        const FilePart& left_out = {});

/// Returns true if a file belongs to the command's own user or to root.
bool is_ours(const FileState& state);

/// Returns why users other than the command's own and root could change what `path` leads to: the
/// last such part of the path, and the reason. Empty if no other user can. Follows links one at a
/// time, and checks the owner of each, of every folder on the way and of the file, and who may
/// write to them. (A folder with the sticky bit is safe; so are the user's own group and a group
/// without other members.)
std::string distrust_of(const std::filesystem::path& path);

/// The same for a virtual environment: its Python, its settings with the home that they name, the
/// folders that it imports Python's own modules and packages from, with each of their entries, and
/// the paths that .pth files name.
std::string distrust_of_environment(const std::filesystem::path& folder);

}  // namespace optrace

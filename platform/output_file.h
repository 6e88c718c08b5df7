#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace optrace {

/// A file that appears whole or not at all: bytes go to a private temporary neighbour (mode 0600),
/// and commit() gives it its name. An object destroyed without commit() leaves nothing behind. A
/// link is followed. What is there and is no regular file (/dev/stdout, a pipe) is written to as
/// it is, and not replaced.
class OutputFile {
 public:
  /// Throws Error(usage) when no file can be made in the folder of `path`, or `path` is a folder.
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Throws Error(failed) when the disk does not take all the bytes.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);

  /// Closes the file and renames it to its path, replacing what was there. Throws Error(failed).
  void commit();

 private:
  void open_in_place();

  std::filesystem::path path_;
  std::filesystem::path temporary_;  ///< Empty for what is written in place.
  int descriptor_ = -1;
};

}  // namespace optrace

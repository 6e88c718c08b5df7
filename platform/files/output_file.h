#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "platform/files/descriptor.h"
#include "platform/files/output_sink.h"

namespace optrace {

/// A name in a folder that is open.
struct NameInFolder {
  Descriptor folder;
  std::string name;
};

/// A file that is written completely or not at all: bytes go to a private temporary file beside it
/// (mode 0600), and commit() renames that. Without commit(), the destructor leaves nothing behind.
/// Links are followed, but those that another user has put into a folder like /tmp, and the folder
/// stays the one that they led to. An existing file that is not regular (/dev/stdout, a pipe) is
/// written in place, and not replaced.
class OutputFile : public OutputSink {
 public:
  /// Throws Error(usage) if no file can be created in the folder of `path`, or `path` is a folder.
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile() override;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Throws Error(failed) if the disk does not accept all bytes. Small pieces are collected first.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) override;

  /// Removes the temporary files that are not committed yet, for a process that ends at once.
  /// Async-signal-safe.
  static void remove_unfinished() noexcept;

  /// Closes the file and renames it to its path, replacing an existing file. Throws Error(failed).
  void commit();

 private:
  void open_in_place();
  void write_collected();
  void write_now(std::string_view text);

  std::filesystem::path path_;
  NameInFolder place_;     ///< Where the links of `path_` lead.
  std::string temporary_;  ///< Name in the folder; empty for a file that is written in place.
  int descriptor_ = -1;
  std::string collected_;
};

}  // namespace optrace

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "platform/files/output_file.h"

namespace optrace {

/// The destination of a command's answer: standard output, or a file that appears whole or not at
/// all.
class CommandOutput {
 public:
  /// `file` is the value of -o; empty: standard output. Throws Error(usage) if it can't be written.
  explicit CommandOutput(const std::string& file);

  /// Returns false once the reader has gone. Throws Error(failed).
  bool write(std::string_view text);

  /// Same as write(), for an answer that is written at once. On a terminal, a long one goes through
  /// the pager.
  void write_whole(std::string_view text);

  /// Same as write(), for text with commands to a CI runner (standard_output.h).
  void write_commands(std::string_view text);

  /// Renames the file to its final name. Throws Error(failed).
  void commit();

 private:
  std::optional<OutputFile> file_;
};

}  // namespace optrace

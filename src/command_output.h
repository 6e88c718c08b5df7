#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "platform/output_file.h"

namespace optrace {

/// Where a command's answer goes: standard output, or a file that appears whole or not at all.
class CommandOutput {
 public:
  /// `file` is -o's value; empty: standard output. Throws Error(usage) when it can't be written to.
  explicit CommandOutput(const std::string& file);

  /// False once nobody reads any more. Throws Error(failed).
  bool write(std::string_view text);

  /// The same for text with commands to a CI runner (standard_output.h).
  void write_commands(std::string_view text);

  /// Gives the file its name. Throws Error(failed).
  void commit();

 private:
  std::optional<OutputFile> file_;
};

}  // namespace optrace

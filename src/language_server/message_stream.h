#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace optrace {

/// The messages of a language server: JSON texts on standard input and output, each after a header
/// with its length (Language Server Protocol 3.17, "Base Protocol").
class MessageStream {
 public:
  /// Returns the JSON text of the next message, or nothing at the end of the input. Throws
  /// Error(usage) for a header that is not valid or a message of more than 64 MiB
  /// and Error(failed).
  std::optional<std::string> read();

  /// Writes the JSON text of a message. Returns false once the client has gone. Throws
  /// Error(failed).
  static bool write(std::string_view text);

 private:
  std::optional<std::string> read_line();
  bool fill();

  std::array<char, 1 << 16> buffer_{};
  std::size_t at_ = 0;
  std::size_t end_ = 0;
};

}  // namespace optrace

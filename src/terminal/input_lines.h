#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

namespace optrace {

/// Reads lines from standard input.
class InputLines {
 public:
  struct Line {
    std::string text;  ///< The line without its newline.
    bool cut = false;  ///< The line is longer than the limit; only its start is kept.
  };

  /// `longest` is the limit of a line's length in bytes.
  explicit InputLines(std::size_t longest) : longest_(longest) {}

  /// Returns the next line, or nothing at the end. Throws Error(failed).
  std::optional<Line> next();

 private:
  std::size_t longest_;
  std::array<char, 1 << 16> buffer_{};
  std::size_t at_ = 0;
  std::size_t end_ = 0;
};

}  // namespace optrace

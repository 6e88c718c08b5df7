#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

namespace optrace {

/// Lines of standard input.
class InputLines {
 public:
  struct Line {
    std::string text;  ///< Without its newline.
    bool cut = false;  ///< It is longer than the limit; only its start is kept.
  };

  /// `longest` is in bytes.
  explicit InputLines(std::size_t longest) : longest_(longest) {}

  /// Nothing at the end. Throws Error(interrupted) and Error(failed).
  std::optional<Line> next();

 private:
  std::size_t longest_;
  std::array<char, 1 << 16> buffer_{};
  std::size_t at_ = 0;
  std::size_t end_ = 0;
};

}  // namespace optrace

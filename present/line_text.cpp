#include "present/line_text.h"

#include <fmt/core.h>

namespace optrace {

std::string line_text(std::uint32_t line, bool exact) {
  return fmt::format("{}{}", exact ? "" : "~", line);
}

std::string place_text(std::string_view file, std::uint32_t line, bool exact) {
  return line == 0 ? std::string(file) : fmt::format("{}:{}", file, line_text(line, exact));
}

}  // namespace optrace

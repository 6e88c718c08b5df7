#include "present/dot_text.h"

#include "platform/text/printable_text.h"

namespace optrace {

std::string dot_text(std::string_view text) {
  std::string escaped;
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

}  // namespace optrace

// The reader of Python files that are open in an editor (lookup/source_text/python_source.h). The
// input is a file; every name in it is resolved.

#include <cstddef>
#include <cstdint>
#include <string>

#include "lookup/source_text/python_source.h"
#include "src/language_server/text_position.h"
#include "tests/fuzz/fuzz_input.h"

OPTRACE_READER(python_text) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const optrace::PythonSource source(text);
  std::size_t lines = 1;
  for (const char c : text) lines += c == '\n' ? 1U : 0U;
  constexpr std::size_t kSteps = 1000;  // Of a long line.
  for (std::size_t line = 0; line <= lines; ++line) {
    const std::string_view content = source.line(line);
    for (std::size_t column = 0; column <= content.size() && column < kSteps; ++column) {
      const std::size_t byte =
          optrace::bytes_before(content, optrace::units_before(content, column));
      if (byte > column) __builtin_trap();
      const auto name = source.name_at(line, column);
      if (!name) continue;
      if (name->begin > column || name->end < column || name->end > content.size())
        __builtin_trap();
      (void)source.full_names(*name);
    }
  }
  constexpr std::size_t kBlocks = 100;
  for (std::size_t line = 0; line <= lines && line < kBlocks; ++line)
    if (const std::size_t end = source.end_of_block(line); end < line || end > lines + 1)
      __builtin_trap();
  for (const optrace::PythonCallInText& call : source.calls(0, lines + 1)) {
    if (call.line > lines || call.name.parts.empty()) __builtin_trap();
    (void)source.full_names(call.name);
  }
  return 0;
}

#include "lookup/locate/locate_output.h"

#include "present/line_text.h"

namespace optrace {

IndexMatch match_of(const Located& located, const IndexedSource& source) {
  IndexMatch match = source.match;
  if (!located.path.empty()) match.of_torch = true;
  return match;
}

IndexMatch match_of_call(const Located& located, const IndexedSource& source) {
  IndexMatch match = source.match;
  if (located.call_in_local_file) match.of_torch = true;
  return match;
}

std::string call_text(const Located& located, const IndexedSource& source) {
  if (located.call_line == 0) return {};
  return line_text(located.call_line,
                   match_of_call(located, source).is_exact(located.call_approximate));
}

std::string place_text(const Located& located, const IndexedSource& source) {
  if (located.file.empty()) return {};
  return place_text(located.file, located.line,
                    match_of(located, source).is_exact(located.approximate));
}

}  // namespace optrace

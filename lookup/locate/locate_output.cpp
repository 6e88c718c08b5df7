#include "lookup/locate/locate_output.h"

#include "present/line_text.h"

namespace optrace {

IndexFit fit_of(const Located& located, const IndexedSource& source) {
  IndexFit fit = source.fit;
  if (!located.path.empty()) fit.of_torch = true;
  return fit;
}

IndexFit fit_of_call(const Located& located, const IndexedSource& source) {
  IndexFit fit = source.fit;
  if (located.call_in_local_file) fit.of_torch = true;
  return fit;
}

std::string call_text(const Located& located, const IndexedSource& source) {
  if (located.call_line == 0) return {};
  return line_text(located.call_line,
                   fit_of_call(located, source).is_exact(located.call_approximate));
}

std::string place_text(const Located& located, const IndexedSource& source) {
  if (located.file.empty()) return {};
  return place_text(located.file, located.line,
                    fit_of(located, source).is_exact(located.approximate));
}

}  // namespace optrace

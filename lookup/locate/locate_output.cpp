#include "lookup/locate/locate_output.h"

#include "indexer/store/line_json.h"
#include "present/line_text.h"

namespace optrace {
namespace {

// A file that was found on this machine is the installed torch's own.
IndexFit fit_of(const Located& located, const LocateSource& source) {
  IndexFit fit = source.fit;
  if (!located.path.empty()) fit.of_torch = true;
  return fit;
}

IndexFit fit_of_call(const Located& located, const LocateSource& source) {
  IndexFit fit = source.fit;
  if (located.call_in_local_file) fit.of_torch = true;
  return fit;
}

}  // namespace

std::string call_text(const Located& located, const LocateSource& source) {
  if (located.call_line == 0) return {};
  return line_text(located.call_line,
                   fit_of_call(located, source).is_exact(located.call_approximate));
}

nlohmann::ordered_json call_json(const Located& located, const LocateSource& source) {
  nlohmann::ordered_json call;
  add_line(call, located.call_line, located.call_approximate, fit_of_call(located, source));
  return call;
}

std::string place_text(const Located& located, const LocateSource& source) {
  if (located.file.empty()) return {};
  return place_text(located.file, located.line,
                    fit_of(located, source).is_exact(located.approximate));
}

nlohmann::ordered_json place_json(const Located& located, const LocateSource& source) {
  nlohmann::ordered_json place = {{"file", located.file}};
  add_line(place, located.line, located.approximate, fit_of(located, source));
  return place;
}

nlohmann::ordered_json source_json(const LocateSource& source) {
  nlohmann::ordered_json object = {{"version", source.version}};
  add_fit(object, source.fit);
  return object;
}

}  // namespace optrace

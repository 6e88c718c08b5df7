#include "report/locate/locate_output.h"

#include "report/model/line_json.h"
#include "report/model/line_text.h"

namespace optrace {
namespace {

// A file that was found on this machine is the installed torch's own.
IndexFit fit_of(const Located& located, const LocateSource& source) {
  IndexFit fit = source.fit;
  if (!located.path.empty()) fit.of_torch = true;
  return fit;
}

}  // namespace

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

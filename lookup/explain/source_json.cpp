#include "lookup/explain/source_json.h"

#include "indexer/store/line_json.h"
#include "present/json_or_null.h"

namespace optrace {

using json = nlohmann::ordered_json;

void SourceJson::add_to(json& answer) const {
  answer["torch"] = text_or_null(source_.torch);
  answer["source"] = {{"version", text_or_null(source_.version)},
                      {"git_version", text_or_null(source_.git_version)}};
  add_fit(answer["source"], source_.fit);
}

json SourceJson::place(const SourceLocation& location) const {
  if (location.file.empty()) return {};
  json place = {{"file", location.file}};
  add_line(place, location.line, location.approximate, source_.fit);
  place["url"] = text_or_null(link_.of_native(location.file, location.line));
  return place;
}

json SourceJson::place_of_line(std::string_view file, std::uint32_t line,
                               const std::optional<LineInterval>& approximate) const {
  return line == 0 ? json() : place({file, line, approximate});
}

}  // namespace optrace

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "indexer/store/source_link.h"
#include "lookup/locate/locate_output.h"
#include "platform/text/json_writer.h"
#include "present/json_or_null.h"

namespace optrace {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kSchema = "optrace.locate/1";

Json place_of(const Located& located, const LocateSource& source) {
  if (located.file.empty()) return {};
  Json place = place_json(located, source);
  place["generated"] = is_generated_source(located.file);
  place["path"] = text_or_null(located.path);
  place["url"] = text_or_null(located.url);
  return place;
}

Json json_of(const Located& located, const LocateSource& source) {
  Json object;
  object["kind"] = name_of(located.kind);
  object["role"] = text_or_null(located.role);
  object["key"] = text_or_null(located.key);
  object["name"] = located.name;
  object["parameters"] = text_or_null(located.parameters);
  object["symbol"] = text_or_null(located.symbol);
  object["source"] = place_of(located, source);
  object["library"] = text_or_null(located.library);
  if (located.call_line != 0) object["call"] = call_json(located, source);
  if (!located.note.empty()) object["note"] = located.note;
  if (located.left_out != 0) object["left_out"] = located.left_out;
  object["parts"] = Json::array();
  for (const Located& part : located.parts) object["parts"].push_back(json_of(part, source));
  return object;
}

Json head(std::string_view query, const LocateSource& source) {
  Json object;
  object["schema"] = kSchema;
  object["query"] = query;
  object["torch"] = source.torch_version.empty()
                        ? Json()
                        : Json{{"version", source.torch_version},
                               {"git_version", text_or_null(source.torch_git_version)}};
  object["source"] = source_json(source);
  return object;
}

Json json_of(const LocateResult& result, const LocateSource& source) {
  Json object = head(result.query, source);
  object["total"] = result.total;
  object["answers"] = Json::array();
  for (const Located& answer : result.answers) object["answers"].push_back(json_of(answer, source));
  if (result.definition) {
    const LocatedDefinition& definition = *result.definition;
    object["definition"] = {{"file", definition.file},
                            {"path", definition.path},
                            {"line", definition.text.line},
                            {"moved", definition.text.moved},
                            {"first_line", definition.text.first},
                            {"lines", definition.text.lines}};
  }
  return object;
}

std::string dumped(const Json& json, int indentation) {
  return write_json(json, indentation) + '\n';
}

}  // namespace

std::string to_json(const LocateResult& result, const LocateSource& source) {
  return dumped(json_of(result, source), 1);
}

std::string to_json_line(const LocateResult& result, const LocateSource& source) {
  return dumped(json_of(result, source), -1);
}

std::string error_to_json_line(std::string_view query, std::string_view error,
                               const std::vector<std::string>& suggestions,
                               const LocateSource& source) {
  Json object = head(query, source);
  object["error"] = error;
  object["suggestions"] = suggestions;
  return dumped(object, -1);
}

}  // namespace optrace

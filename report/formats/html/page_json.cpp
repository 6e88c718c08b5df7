#include "report/formats/html/page_json.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "platform/text/json_writer.h"
#include "platform/text/printable_text.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

std::string visible(std::string_view text) {
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of("\t\n", at), text.size());
    shown += printable(text.substr(at, end - at));
    if (end < text.size()) shown += text[end];
    at = end + 1;
  }
  return shown;
}

Json visible_json(const Json& value) {
  if (value.is_string()) return visible(value.get_ref<const std::string&>());
  if (!value.is_structured()) return value;
  Json shown = value.is_array() ? Json::array() : Json::object();
  for (const auto& [key, content] : value.items())
    if (value.is_array())
      shown.push_back(visible_json(content));
    else
      shown.emplace(visible(key), visible_json(content));
  return shown;
}

}  // namespace

std::string page_json(const Json& value) {
  // Only unsafe characters are escaped by number, so most values are written once.
  if (std::string text = write_json(value); text.find("\\u") == std::string::npos) return text;
  return write_json(visible_json(value));
}

}  // namespace optrace

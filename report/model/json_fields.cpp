#include "report/model/json_fields.h"

#include <string_view>

namespace optrace {

std::string text_at(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(std::string_view(key));
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::uint64_t count_at(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return 0;
  const auto found = object.find(std::string_view(key));
  return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

const nlohmann::json& object_at(const nlohmann::json& object, const char* key) {
  static const nlohmann::json kEmpty = nlohmann::json::object();
  if (!object.is_object()) return kEmpty;
  const auto found = object.find(std::string_view(key));
  return found != object.end() && found->is_object() ? *found : kEmpty;
}

const nlohmann::json& list_at(const nlohmann::json& object, const char* key) {
  static const nlohmann::json kEmpty = nlohmann::json::array();
  if (!object.is_object()) return kEmpty;
  const auto found = object.find(std::string_view(key));
  return found != object.end() && found->is_array() ? *found : kEmpty;
}

}  // namespace optrace

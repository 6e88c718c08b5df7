#include <type_traits>
#include <variant>

#include "platform/text/json_writer.h"
#include "src/doctor/doctor_output.h"

namespace optrace {
namespace {

using Json = nlohmann::ordered_json;

Json as_json(const std::vector<DoctorFact>& facts) {
  Json object = Json::object();
  const auto as_value = [](const auto& value) -> Json {
    if constexpr (std::is_same_v<decltype(value), const std::vector<DoctorFact>&>)
      return as_json(value);
    else
      return value;
  };
  for (const DoctorFact& fact : facts) object[fact.name] = std::visit(as_value, fact.value);
  return object;
}

Json json_of(const DoctorCheck& check) {
  Json object = {{"id", check.id},
                 {"status", name_of(check.state)},
                 {"self_test", check.tested},
                 {"found", check.found}};
  if (!check.remedy.empty()) object["remedy"] = check.remedy;
  if (!check.facts.empty()) object["facts"] = as_json(check.facts);
  return object;
}

}  // namespace

std::string to_json(const std::vector<DoctorCheck>& checks) {
  Json object = {
      {"schema", "optrace.doctor/1"}, {"usable", is_usable(checks)}, {"checks", Json::array()}};
  for (const DoctorCheck& check : checks) object["checks"].push_back(json_of(check));
  return write_json(object, 1) + '\n';
}

}  // namespace optrace

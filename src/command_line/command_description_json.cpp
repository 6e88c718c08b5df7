#include <nlohmann/json.hpp>

#include "src/command_line/command_description.h"

namespace optrace {
namespace {

nlohmann::json as_json(const OptionDescription& option) {
  return {{"names", option.names},       {"positional", option.positional},
          {"required", option.required}, {"repeated", option.repeated},
          {"type", option.type},         {"help", option.help},
          {"default", option.usual},     {"variable", option.variable},
          {"choices", option.choices},   {"takes_value", option.takes_value}};
}

nlohmann::json as_json(const CommandDescription& command) {
  nlohmann::json json = {
      {"name", command.name}, {"help", command.help}, {"footer", command.footer}};
  json["options"] = nlohmann::json::array();
  for (const OptionDescription& option : command.options)
    json["options"].push_back(as_json(option));
  json["commands"] = nlohmann::json::array();
  for (const CommandDescription& one : command.commands) json["commands"].push_back(as_json(one));
  return json;
}

}  // namespace

std::string to_json(const CommandDescription& command) {
  return as_json(command).dump(1) + "\n";
}

}  // namespace optrace

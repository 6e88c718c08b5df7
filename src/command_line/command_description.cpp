#include "src/command_line/command_description.h"

#include <algorithm>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "src/command_line/command_line.h"

namespace optrace {
namespace {

std::string on_one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

OptionDescription describe(CLI::Option& option) {
  OptionDescription described;
  described.positional = option.get_positional();
  if (described.positional) described.names.push_back(option.get_name(true));
  for (const std::string& name : option.get_snames()) described.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) described.names.push_back("--" + name);
  described.takes_value = option.get_expected_min() > 0 && option.get_items_expected_max() > 0;
  described.required = option.get_required();
  described.repeated = option.get_items_expected_max() > 1;
  described.type = option.get_type_name();
  described.help = on_one_line(option.get_description());
  described.usual = option.get_default_str();
  described.variable = option.get_envname();
  described.choices = Option(option).values();
  return described;
}

// An option group is a command without a name.
void add_options(CLI::App& app, std::vector<OptionDescription>& options) {
  for (CLI::Option* const option : app.get_options({}))
    if (!option->get_group().empty()) options.push_back(describe(*option));
  for (CLI::App* const group : app.get_subcommands([](CLI::App*) { return true; }))
    if (group->get_name().empty()) add_options(*group, options);
}

CommandDescription describe(CLI::App& app) {
  CommandDescription command{.name = app.get_name(),
                             .help = on_one_line(app.get_description()),
                             .footer = app.get_footer(),
                             .options = {},
                             .commands = {}};
  add_options(app, command.options);
  for (CLI::App* const one : app.get_subcommands([](CLI::App*) { return true; }))
    if (!one->get_name().empty()) command.commands.push_back(describe(*one));
  return command;
}

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

const CommandDescription* CommandDescription::command(const std::string& wanted) const {
  const auto found = std::ranges::find(commands, wanted, &CommandDescription::name);
  return found == commands.end() ? nullptr : &*found;
}

const OptionDescription* CommandDescription::option(const std::string& wanted) const {
  const auto found = std::ranges::find_if(options, [&](const OptionDescription& one) {
    return std::ranges::find(one.names, wanted) != one.names.end();
  });
  return found == options.end() ? nullptr : &*found;
}

const OptionDescription* CommandDescription::positional(std::size_t index) const {
  for (const OptionDescription& one : options) {
    if (!one.positional) continue;
    if (index == 0 || one.repeated) return &one;
    --index;
  }
  return nullptr;
}

CommandDescription describe(const Command& command) {
  return describe(*command.app_);
}

std::string to_json(const CommandDescription& command) {
  return as_json(command).dump(1) + "\n";
}

}  // namespace optrace

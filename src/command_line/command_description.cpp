#include "src/command_line/command_description.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <variant>

namespace optrace {
namespace {

std::string on_one_line(std::string_view lines) {
  std::string text(lines);
  std::ranges::replace(text, '\n', ' ');
  return text;
}

OptionDescription describe(const OptionRow& row) {
  const auto* const one_of = std::get_if<OneOf>(&row.extras.allowed);
  OptionDescription described;
  described.names = row.all_names();
  described.positional = row.is_positional();
  described.takes_value = row.takes_value();
  described.required = row.extras.required;
  described.repeated = row.shows_several_values();
  described.type = row.value;
  described.help = on_one_line(row.help);
  described.usual = row.extras.usual;
  described.variable = row.extras.variable;
  if (one_of != nullptr) described.choices.assign(one_of->values.begin(), one_of->values.end());
  return described;
}

}  // namespace

const CommandDescription* CommandDescription::command(const std::string& searched) const {
  const auto found = std::ranges::find(commands, searched, &CommandDescription::name);
  return found == commands.end() ? nullptr : &*found;
}

const OptionDescription* CommandDescription::option(const std::string& searched) const {
  const auto found = std::ranges::find_if(options, [&](const OptionDescription& one) {
    return std::ranges::find(one.names, searched) != one.names.end();
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

std::vector<std::string> CommandDescription::long_names() const {
  std::vector<std::string> names;
  for (const OptionDescription& option : options)
    std::ranges::copy_if(option.names, std::back_inserter(names),
                         [](const std::string& one) { return one.starts_with("--"); });
  return names;
}

CommandDescription describe(const CommandRow& command) {
  const CommandBody body = command.body ? command.body() : CommandBody{};
  CommandDescription described;
  described.name = command.name;
  described.help = on_one_line(command.summary);
  described.footer = command.examples;
  if (const ProgramWords* const program = program_of(body.options))
    described.program_after = program->only_after;
  const auto add = [&described](const OptionRow& row) {
    described.options.push_back(describe(row));
  };
  add(help_row());
  if (!command.version.empty()) add(version_row());
  visit_options(body.options, add);
  for (const CommandRow& one : command.commands) described.commands.push_back(describe(one));
  return described;
}

}  // namespace optrace

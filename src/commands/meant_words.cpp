#include "src/commands/meant_words.h"

#include <algorithm>
#include <vector>

#include <fmt/core.h>

#include "lookup/locate/op_spelling.h"
#include "platform/text/joined.h"
#include "src/command_line/command_description.h"
#include "src/commands/commands.h"

namespace optrace {
namespace {

std::vector<std::string> commands_with(const CommandDescription& program,
                                       const std::string& option) {
  std::vector<std::string> found;
  for (const CommandDescription& one : program.commands)
    if (one.option(option) != nullptr)
      found.push_back(fmt::format("`{} {}`", program.name, one.name));
  return found;
}

}  // namespace

std::string command_meant(const std::string& word) {
  std::vector<std::string> names;
  for (const CommandRow& one : optrace_command().commands) {
    if (one.name == word) return {};
    names.emplace_back(one.name);
  }
  const std::vector<std::string> near = near_names(word, names, 1);
  return near.empty() ? std::string() : near.front();
}

std::string option_meant(const WrongUsage& wrong) {
  const CommandDescription program = describe(optrace_command());
  const CommandDescription* const chosen = program.command(wrong.command());
  const CommandDescription& command = chosen == nullptr ? program : *chosen;
  for (const std::string& word : wrong.unexpected()) {
    if (!word.starts_with("--")) continue;
    const std::string option = word.substr(0, word.find('='));
    if (const auto others = commands_with(program, option); !others.empty())
      return fmt::format("{} {} {}.", joined(others, ", "), others.size() == 1 ? "has" : "have",
                         option);
    if (const auto near = near_names(option, command.long_names(), 1); !near.empty())
      return fmt::format("Did you mean {}?", near.front());
  }
  return {};
}

}  // namespace optrace

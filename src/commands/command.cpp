#include "src/commands/command.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lookup/locate/op_spelling.h"

namespace optrace {
namespace {

std::vector<std::string> subcommands_with(const Command& app, const std::string& option) {
  std::vector<std::string> found;
  for (const auto& one : app.subcommands())
    if (std::ranges::count(one->long_names(), option) != 0)
      found.push_back(fmt::format("`{} {}`", app.name(), one->name()));
  return found;
}

}  // namespace

std::string subcommand_meant(const Command& app, const std::string& word) {
  std::vector<std::string> names;
  for (const auto& one : app.subcommands()) {
    if (one->name() == word) return {};
    names.push_back(one->name());
  }
  const std::vector<std::string> near = near_names(word, names, 1);
  return near.empty() ? std::string() : near.front();
}

std::string option_meant(const Command& app) {
  const Command* const chosen = app.chosen();
  const Command& command = chosen == nullptr ? app : *chosen;
  for (const std::string& word : app.unexpected_words()) {
    if (!word.starts_with("--")) continue;
    const std::string option = word.substr(0, word.find('='));
    if (const auto others = subcommands_with(app, option); !others.empty())
      return fmt::format("{} {} {}.", fmt::join(others, ", "), others.size() == 1 ? "has" : "have",
                         option);
    if (const auto near = near_names(option, command.long_names(), 1); !near.empty())
      return fmt::format("Did you mean {}?", near.front());
  }
  return {};
}

}  // namespace optrace

#include "src/commands/command.h"

#include <algorithm>
#include <vector>

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "report/locate/op_spelling.h"

namespace optrace {
namespace {

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> subcommands_with(const CLI::App& app, const std::string& option) {
  std::vector<std::string> found;
  for (const CLI::App* const one : app.get_subcommands([](const CLI::App*) { return true; }))
    if (std::ranges::count(option_names(*one), option) != 0)
      found.push_back(fmt::format("`{} {}`", app.get_name(), one->get_name()));
  return found;
}

}  // namespace

std::string subcommand_meant(CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* const one : app.get_subcommands([](CLI::App*) { return true; })) {
    if (one->get_name() == word) return {};
    names.push_back(one->get_name());
  }
  const std::vector<std::string> near = near_names(word, names, 1);
  return near.empty() ? std::string() : near.front();
}

std::string option_meant(const CLI::App& app) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  const CLI::App& command = parsed.empty() ? app : *parsed.front();
  for (const std::string& word : app.remaining(true)) {
    if (!word.starts_with("--")) continue;
    const std::string option = word.substr(0, word.find('='));
    if (const auto others = subcommands_with(app, option); !others.empty())
      return fmt::format("{} {} {}.", fmt::join(others, ", "), others.size() == 1 ? "has" : "have",
                         option);
    if (const auto near = near_names(option, option_names(command), 1); !near.empty())
      return fmt::format("Did you mean {}?", near.front());
  }
  return {};
}

}  // namespace optrace

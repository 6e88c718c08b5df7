#include "src/commands/command.h"

#include <vector>

#include "report/locate/op_spelling.h"

namespace optrace {

std::string subcommand_meant(CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* const one : app.get_subcommands([](CLI::App*) { return true; })) {
    if (one->get_name() == word) return {};
    names.push_back(one->get_name());
  }
  const std::vector<std::string> near = near_names(word, names, 1);
  return near.empty() ? std::string() : near.front();
}

}  // namespace optrace

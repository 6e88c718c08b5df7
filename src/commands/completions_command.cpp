#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/command_line/command_description.h"
#include "src/commands/command.h"
#include "src/completion/completion.h"
#include "src/completion/completion_scripts.h"
#include "src/completion/index_names.h"
#include "src/options/common_options.h"
#include "src/terminal/standard_output.h"

namespace optrace {

void add_completions_command(Command& app) {
  const auto shell = std::make_shared<std::string>();
  Command& command =
      app.add_subcommand("completions", "Print a script that completes command lines of optrace");
  command.footer(
      "An installed optrace has the scripts where the shells look for them. Otherwise:\n"
      "  source <(optrace completions bash)                     in ~/.bashrc\n"
      "  source <(optrace completions zsh)                      in ~/.zshrc, after compinit\n"
      "  optrace completions fish | source                      in ~/.config/fish/config.fish");
  std::set<std::string> shells;
  for (const CompletionScript& script : completion_scripts()) shells.emplace(script.shell);
  command.add_positional("SHELL", *shell, "bash, zsh or fish").required().one_of(shells);
  command.callback([shell] {
    for (const CompletionScript& script : completion_scripts())
      if (script.shell == *shell) write_standard_output(script.text);
  });
}

bool run_hidden_command(const Command& app, std::span<char* const> arguments) {
  const std::string_view name = arguments.size() > 1 ? arguments[1] : "";
  if (name == "__describe") {
    write_standard_output(to_json(describe(app)));
    return true;
  }
  if (name != "__complete") return false;
  const std::vector<std::string> words(arguments.begin() + 2, arguments.end());
  write_standard_output(to_lines(complete(describe(app), words, IndexNames())));
  return true;
}

}  // namespace optrace

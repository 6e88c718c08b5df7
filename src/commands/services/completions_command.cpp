#include <string>
#include <utility>

#include "src/commands/command.h"
#include "src/completion/completion_scripts.h"
#include "src/terminal/standard_output.h"

namespace optrace {
namespace {

struct CompletionsOptions {
  std::string shell;
};

OptionRows option_rows(CompletionsOptions& options) {
  OneOf shells;
  for (const CompletionScript& script : completion_scripts()) shells.values.emplace(script.shell);
  return {{"SHELL",
           "",
           "bash, zsh or fish",
           &options.shell,
           {.required = true, .allowed = std::move(shells)}}};
}

void run(const CompletionsOptions& options) {
  for (const CompletionScript& script : completion_scripts())
    if (script.shell == options.shell) write_standard_output(script.text);
}

}  // namespace

CommandBody completions_command() {
  return command_body<CompletionsOptions>(option_rows, run);
}

}  // namespace optrace

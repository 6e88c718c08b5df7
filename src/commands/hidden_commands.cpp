#include "src/commands/hidden_commands.h"

#include <span>

#include "src/command_line/command_description.h"
#include "src/commands/commands.h"
#include "src/completion/completion.h"
#include "src/completion/index_names.h"
#include "src/terminal/standard_output.h"

namespace optrace {

bool run_hidden_command(const std::vector<std::string>& words) {
  if (words.empty() || (words[0] != "__describe" && words[0] != "__complete")) return false;
  const CommandDescription program = describe(optrace_command());
  write_standard_output(
      words[0] == "__describe"
          ? to_json(program)
          : to_lines(complete(program, std::span(words).subspan(1), IndexNames())));
  return true;
}

}  // namespace optrace

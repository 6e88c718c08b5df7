#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "platform/error.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/inputs/selected_index.h"
#include "src/language_server/language_server.h"
#include "src/language_server/message_stream.h"
#include "src/language_server/name_answers.h"
#include "src/options/common_options.h"

namespace optrace {
namespace {

struct LspOptions {
  std::string python;
};

void run(const LspOptions& options) {
  SelectedIndex choice = choose_index(options.python);
  print_notices(choice);
  NameAnswers answers(std::move(choice));
  const std::string_view version = optrace_command().version;  // `optrace 0.1.0`
  LanguageServer server(answers, std::string(version.substr(version.find(' ') + 1)));
  const auto messages = std::make_unique<MessageStream>();
  while (!server.ended()) {
    const std::optional<std::string> message = messages->read();
    if (!message) break;
    if (const auto response = server.answer(*message))
      if (!MessageStream::write(*response)) break;
  }
  // As the protocol demands.
  if (!server.shut_down()) throw CommandEnded(ExitStatus::differs);
}

OptionRows option_rows(LspOptions& options) {
  return {python_row(options.python)};
}

}  // namespace

CommandBody lsp_command() {
  return command_body<LspOptions>(option_rows, run);
}

}  // namespace optrace

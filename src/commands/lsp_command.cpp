#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "platform/error.h"
#include "platform/process/interrupt.h"
#include "src/commands/command.h"
#include "src/inputs/index_choice.h"
#include "src/language_server/language_server.h"
#include "src/language_server/message_stream.h"
#include "src/language_server/name_answers.h"

namespace optrace {
namespace {

void serve(const std::string& python, const std::string& version) {
  const InterruptGuard guard;
  IndexChoice choice = choose_index(python);
  say_notices(choice);
  NameAnswers answers(std::move(choice));
  LanguageServer server(answers, version);
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

}  // namespace

void add_lsp_command(Command& app) {
  Command& command =
      app.add_subcommand("lsp", "Serve an editor: go to definition and hover on names of PyTorch");
  command.footer(
      "A language server on standard input and output, which an editor starts. In Python files,\n"
      "torch.matmul, F.conv2d and x.add_ have their binding, kernels by dispatch key, and\n"
      "derivative. docs/editors.md has the set-up for VS Code, neovim and emacs.");
  const auto python = std::make_shared<std::string>();
  command.add_option("--python", *python, "The Python that has torch").type_name("PATH");
  command.callback([&app, python] {
    const std::string version = app.version();  // `optrace 0.1.0`
    serve(*python, version.substr(version.find(' ') + 1));
  });
}

}  // namespace optrace

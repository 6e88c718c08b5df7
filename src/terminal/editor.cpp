#include "src/terminal/editor.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include <fmt/core.h>

#include "platform/error.h"
#include "platform/process/child_process.h"
#include "platform/process/interrupt.h"
#include "platform/text/printable_text.h"
#include "src/terminal/command_words.h"
#include "src/terminal/standard_output.h"

namespace optrace {
namespace {

constexpr const char* kRemedy =
    "Set VISUAL or EDITOR to a program, such as `vim` or `code --wait`.";

enum class LineArgument { plus, go_to, colon };

struct KnownEditor {
  std::string_view name;
  LineArgument line;
};

// The way that each editor accepts a line number, from its manual.
constexpr auto kEditors = std::to_array<KnownEditor>({
    {"vi", LineArgument::plus},
    {"vim", LineArgument::plus},
    {"nvim", LineArgument::plus},
    {"gvim", LineArgument::plus},
    {"view", LineArgument::plus},
    {"emacs", LineArgument::plus},
    {"emacsclient", LineArgument::plus},
    {"nano", LineArgument::plus},
    {"micro", LineArgument::plus},
    {"kak", LineArgument::plus},
    {"joe", LineArgument::plus},
    {"less", LineArgument::plus},
    {"gedit", LineArgument::plus},
    {"code", LineArgument::go_to},
    {"code-insiders", LineArgument::go_to},
    {"codium", LineArgument::go_to},
    {"vscodium", LineArgument::go_to},
    {"cursor", LineArgument::go_to},
    {"subl", LineArgument::colon},
    {"zed", LineArgument::colon},
    {"hx", LineArgument::colon},
    {"helix", LineArgument::colon},
});

}  // namespace

EditorCommand editor_command(std::string_view editor, const std::filesystem::path& file,
                             std::uint32_t line) {
  EditorCommand command;
  command.arguments = split_words(editor);
  if (command.arguments.empty() || command.arguments[0].empty())
    throw Error(ExitStatus::usage, "no editor is set", kRemedy);
  const std::string name = std::filesystem::path(command.arguments[0]).filename().string();
  const auto* const known =
      std::ranges::find_if(kEditors, [&](const KnownEditor& one) { return one.name == name; });
  command.at_line = known != kEditors.end();
  if (!command.at_line) {
    command.arguments.push_back(file.string());
    return command;
  }
  switch (known->line) {
    case LineArgument::plus:
      command.arguments.push_back(fmt::format("+{}", line));
      command.arguments.push_back(file.string());
      break;
    case LineArgument::go_to:
      command.arguments.emplace_back("--goto");
      command.arguments.push_back(fmt::format("{}:{}", file.string(), line));
      break;
    case LineArgument::colon:
      command.arguments.push_back(fmt::format("{}:{}", file.string(), line));
      break;
  }
  return command;
}

void open_in_editor(const std::filesystem::path& file, std::uint32_t line) {
  const char* editor = nullptr;
  for (const char* const name : {"VISUAL", "EDITOR"})
    if (const char* const value = std::getenv(name);
        editor == nullptr && value != nullptr && *value != '\0')
      editor = value;
  if (editor == nullptr) throw Error(ExitStatus::usage, "no editor is set", kRemedy);
  const EditorCommand command = editor_command(editor, file, std::max(line, 1U));
  if (!command.at_line)
    write_message(
        fmt::format("optrace can't pass a line to the editor {}; the definition is at line {}",
                    command.arguments[0], line));
  ChildProcess::Options options;
  options.arguments = command.arguments;
  options.own_process_group = false;  // It reads from the terminal.
  ChildProcess child(options);
  const IgnoredInterrupt guard;
  if (const int status = child.wait(); status != 0) {
    throw Error(ExitStatus::failed,
                fmt::format("{} ended with {}", printable(command.arguments[0]),
                            describe_wait_status(status)),
                kRemedy);
  }
}

}  // namespace optrace

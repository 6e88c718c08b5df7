#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>
#include <unistd.h>

#include "indexer/store/source_link.h"
#include "lookup/locate/locate.h"
#include "lookup/locate/locate_output.h"
#include "lookup/locate/locate_query.h"
#include "platform/error.h"
#include "platform/text/ascii_text.h"
#include "platform/text/joined.h"
#include "pytorch/symbols/symbol_name.h"
#include "src/commands/command.h"
#include "src/commands/source/locate_calls.h"
#include "src/commands/source/locate_source.h"
#include "src/inputs/local_sources.h"
#include "src/inputs/python_inspection.h"
#include "src/inputs/selected_index.h"
#include "src/options/common_options.h"
#include "src/terminal/command_output.h"
#include "src/terminal/editor.h"
#include "src/terminal/input_lines.h"

namespace optrace {
namespace {

constexpr std::size_t kMaxLineLength = 64 << 10;  // Bytes; parse_name's limit.
// Bytes, for names that are searched for in the source.
constexpr std::size_t kMaxFunctionLength = 500;
constexpr std::size_t kShownOfName = 100;  // Characters of a name shown in an error.
constexpr auto kPythonTimeout = std::chrono::seconds(60);

struct LocateCommandOptions : AnswerOptions {
  std::string name;
  std::string python;
  LocateOptions answers;
  bool open = false;
  bool source = false;
  LocateCalls calls;
};

std::string unknown(std::string_view name) {
  return fmt::format("PyTorch has nothing named '{}'",
                     shorten_middle(printable(name), kShownOfName));
}

// Returns true if Python itself may know a name that the index lacks.
bool worth_asking_python(const SelectedIndex& choice, const Locator& locator,
                         const std::string& name) {
  if (!is_dotted_python_name(name)) return false;
  const std::string package = name.substr(0, name.find('.'));
  if (package == "torch") return !choice.exact;  // An index of that torch contains all its names.
  return package != "F" && !locator.knows_python_name(package);
}

std::optional<Located> ask_python(const SelectedIndex& choice, const Locator& locator,
                                  const std::string& name) {
  if (!choice.torch || !worth_asking_python(choice, locator, name)) return std::nullopt;
  auto found = inspect_python_name(choice.torch->python, name, kPythonTimeout);
  if (!found) return std::nullopt;
  found->file = relative_to_torch(found->file, choice.torch->folder.string());
  found->url = SourceLink(choice.torch->git_version, choice.torch->version)
                   .of_python(found->file, found->line);
  return found;
}

std::optional<WheelSymbols> wheel_symbols(const SelectedIndex& choice) {
  if (!choice.torch) return std::nullopt;
  return WheelSymbols(choice.torch->folder / "lib");
}

// Returns the C++ function or op in a name, if it can be one: `matmul` for `torch.matmul`,
// `aten::add.Tensor` unchanged.
std::vector<std::string> function_names(const std::string& name) {
  std::string function = name;
  if (name.starts_with("_Z")) {
    const std::vector<std::string> components = symbol_components(name);
    function = components.empty() ? "" : components.back();
  }
  if (function.find(':') == std::string::npos) function.erase(0, function.rfind('.') + 1);
  const bool is_name = std::ranges::all_of(function, [](char letter) {
    return is_word_character(letter) || letter == ':' || letter == '.';
  });
  if (function.empty() || function.size() > kMaxFunctionLength || !is_name) return {};
  return {function};
}

// Says on standard error that the text of the definition is not at the answer's line.
void warn_if_moved(const LocateResult& result, const SelectedIndex& choice) {
  if (!result.definition || !result.definition->text.moved) return;
  fmt::print(stderr,
             "optrace: the index is of PyTorch {} and has another line of {}; the definition was "
             "found by its name\n",
             choice.index.torch_version(), printable(result.definition->name));
}

void locate_one(const LocateCommandOptions& options) {
  CommandOutput output(options.file);
  SelectedIndex choice = choose_index(options.python);
  print_notices(choice);
  index_on_demand(function_names(options.name), options.python, choice);
  print_notices(choice);
  const std::optional<WheelSymbols> wheel = wheel_symbols(choice);
  Locator locator(choice.index, projects_of(choice), wheel ? &*wheel : nullptr);
  LocateResult result = locator.locate(options.name, options.answers);
  if (result.answers.empty()) {
    if (auto found = ask_python(choice, locator, result.query)) {
      result.answers.push_back(std::move(*found));
      result.total = 1;
    }
  }
  if (result.answers.empty()) {
    throw Error(
        ExitStatus::usage, unknown(result.query),
        result.suggestions.empty()
            ? "No name is similar. Give a Python class or function, an op, or a C++ function of "
              "PyTorch."
            : printable(fmt::format("Did you mean {}?", joined(result.suggestions, ", "))));
  }
  if (options.open) {
    const LocalAnswer answer = local_answer(choice, result);
    open_in_editor(answer.file, answer.located->line);
    return;
  }
  LocateCalls calls = options.calls;
  calls.all = options.answers.all;
  if (options.source) {
    add_definition(choice, result);
    warn_if_moved(result, choice);
  } else {
    add_calls(choice, calls, result);
  }
  const IndexedSource source = source_of(choice);
  if (options.format == "json") {
    output.write_whole(to_json(result, source));
  } else {
    LocateTextOptions text;
    text.all = options.answers.all;
    if (options.file.empty()) {
      text.width = options.target().width;
      text.style = options.style(find_in(LocalSources(choice)));
    }
    output.write_whole(result.definition ? to_text(*result.definition, text)
                                         : to_text(result, source, text));
  }
  output.commit();
}

std::string answer_line(Locator& locator, const InputLines::Line& line, const IndexedSource& source,
                        const LocateOptions& options) {
  const auto failed = [&](const std::string& error, const std::vector<std::string>& suggestions) {
    const std::string query =
        line.text.size() > kMaxLineLength ? line.text.substr(0, kShownOfName) : line.text;
    return error_to_json_line(query, error, suggestions, source);
  };
  if (line.cut)
    return failed(
        fmt::format("the name has more than {} bytes, and no name is that long", kMaxLineLength),
        {});
  LocateResult result;
  try {
    result = locator.locate(line.text, options);
  } catch (const Error& error) {
    return failed(error.what(), {});
  }
  return result.answers.empty() ? failed(unknown(result.query), result.suggestions)
                                : to_json_line(result, source);
}

void locate_lines(const LocateCommandOptions& options) {
  if (options.calls.callers || options.calls.callees) {
    throw Error(ExitStatus::usage,
                "--callers and --callees take one name, not names from standard input",
                "Give one name: `optrace locate --callers at::native::convolution`.");
  }
  if (options.open || options.source) {
    throw Error(ExitStatus::usage,
                "--open and --source take one name, not names from standard input",
                "Give one name: `optrace locate --source nn.Linear`.");
  }
  CommandOutput output(options.file);
  SelectedIndex choice = choose_index(options.python);
  print_notices(choice);
  const std::optional<WheelSymbols> wheel = wheel_symbols(choice);
  Locator locator(choice.index, projects_of(choice), wheel ? &*wheel : nullptr);
  const IndexedSource source = source_of(choice);
  const auto lines = std::make_unique<InputLines>(kMaxLineLength);
  while (const auto line = lines->next())
    if (!output.write(answer_line(locator, *line, source, options.answers))) return;
  output.commit();
}

void run(const LocateCommandOptions& options) {
  if (options.name == "-")
    locate_lines(options);
  else
    locate_one(options);
}

OptionRows option_rows(LocateCommandOptions& options) {
  return {
      {"NAME", "", "A name as in Python, C++ or the dispatcher; or - for standard\ninput",
       &options.name, kRequired},
      text_or_json_row(options.format, "optrace.locate/1"),
      output_file_row(options.file),
      {"--limit",
       "N",
       "Maximum number of answers",
       &options.answers.limit,
       {.allowed = Between<int>(1, 100000), .usual = std::to_string(options.answers.limit)}},
      {"--all", "", "Show all answers, including generated out variants and all\ncallers",
       &options.answers.all},
      {"--callers", "",
       "Also list what calls a C++ function or op: functions, the ops\nand stubs for which it is "
       "registered, its name in Python",
       &options.calls.callers},
      {"--callees", "", "Also list what it calls, with the line of each first call",
       &options.calls.callees},
      {"--depth",
       "N",
       "How many calls to follow, with --callers or --callees",
       &options.calls.depth,
       {.allowed = Between<int>(1, 100), .usual = std::to_string(options.calls.depth)}},
      {"--open", "", "Open the definition in $VISUAL or $EDITOR", &options.open},
      {"--source",
       "",
       "Print the text of the definition, from a file on this machine",
       &options.source,
       {.excludes = {"--callers", "--callees", "--open"}}},
      python_row(options.python),
      terminal_rows(options.terminal),
  };
}

}  // namespace

CommandBody locate_command() {
  return command_body<LocateCommandOptions>(option_rows, run);
}

}  // namespace optrace

#include "src/commands/source/locate_source.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "lookup/locate/definition_text.h"
#include "platform/error.h"
#include "report/formats/html/source_copies.h"
#include "src/inputs/local_sources.h"

namespace optrace {
namespace {

// Returns true if the lines of the index are those of the file: if the file is of the version that
// the index is of.
bool is_line_of_file(const SelectedIndex& choice, const LocalAnswer& answer) {
  if (!answer.located->path.empty()) return true;
  if (answer.located->approximate) return false;
  const bool in_wheel =
      choice.torch && answer.file.string().starts_with(choice.torch->folder.parent_path().string());
  return !in_wheel || choice.exact;
}

std::filesystem::path file_of(const LocalSources& sources, const Located& located) {
  return sources.find(located.path.empty() ? located.file : located.path);
}

}  // namespace

LocalAnswer local_answer(const SelectedIndex& choice, const LocateResult& result) {
  const auto placed = std::ranges::find_if(
      result.answers, [](const Located& answer) { return !answer.file.empty(); });
  if (placed == result.answers.end()) {
    throw Error(ExitStatus::usage,
                fmt::format("the source file of {} is unknown", result.answers.front().name),
                "Without --open and --source, the known facts are shown.");
  }
  const LocalSources sources(choice);
  std::filesystem::path file = file_of(sources, *placed);
  // The binding of a builtin is generated; the entry of its op is in the wheel.
  if (file.empty() && placed->kind == LocatedKind::python_builtin)
    for (const Located& part : placed->parts)
      if (std::filesystem::path of_part = file_of(sources, part); !of_part.empty())
        return {&part, std::move(of_part)};
  if (file.empty()) {
    throw Error(ExitStatus::usage,
                fmt::format("{} is not on this machine", place_text(*placed, source_of(choice))),
                placed->url.empty()
                    ? "PyTorch's build generates it, and so does `optrace source add DIR`."
                    : fmt::format("It is at {}\n`optrace source fetch` downloads PyTorch's source.",
                                  placed->url));
  }
  return {&*placed, std::move(file)};
}

void add_definition(const SelectedIndex& choice, LocateResult& result) {
  const LocalAnswer answer = local_answer(choice, result);
  const std::optional<std::vector<std::string>> lines = read_source_lines(answer.file);
  if (!lines) {
    throw Error(ExitStatus::usage, fmt::format("cannot read {}", answer.file.string()),
                "It must be a source file of at most 4 MiB.");
  }
  std::optional<DefinitionText> text =
      definition_text(*lines, *answer.located, is_line_of_file(choice, answer));
  if (!text) {
    throw Error(
        ExitStatus::usage,
        fmt::format("{} has no definition of {}", answer.file.string(), answer.located->name),
        fmt::format("The line {} is that of PyTorch {}; the file is of another version. "
                    "`optrace source add` makes an index of it.",
                    place_text(*answer.located, source_of(choice)), choice.index.torch_version()));
  }
  result.definition = {.file = answer.located->file,
                       .path = answer.file.string(),
                       .name = answer.located->name,
                       .text = std::move(*text)};
}

}  // namespace optrace

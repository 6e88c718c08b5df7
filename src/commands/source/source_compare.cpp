#include <string>

#include "indexer/store/index_store.h"
#include "lookup/source_compare/source_comparison.h"
#include "lookup/source_compare/source_comparison_output.h"
#include "platform/error.h"
#include "src/commands/command.h"
#include "src/inputs/index_operand.h"
#include "src/options/common_options.h"
#include "src/terminal/command_output.h"

namespace optrace {
namespace {

struct CompareSourceOptions : AnswerOptions {
  std::string first, second;
  SourceComparisonOptions selection;
};

ComparedSource described(const std::string& label, const Index& index) {
  return {.label = label,
          .torch_version = std::string(index.torch_version()),
          .git_version = std::string(index.git_version()),
          .index = index.path().string()};
}

void run(const CompareSourceOptions& options) {
  CommandOutput output(options.file);
  const Index first = open_index_operand(options.first);
  const Index second = open_index_operand(options.second);
  const SourceComparison comparison = compare_sources(first, second, options.selection);
  const ComparedSource before = described(options.first, first);
  const ComparedSource after = described(options.second, second);
  output.write_whole(options.format == "json"
                         ? to_json(comparison, before, after)
                         : to_text(comparison, before, after, options.style()));
  output.commit();
  if (comparison.differences() != 0) throw CommandEnded(ExitStatus::differs);
  if (!comparison.not_compared.empty()) throw CommandEnded(ExitStatus::usage);
}

OptionRows option_rows(CompareSourceOptions& options) {
  return {
      {"A", "", "A version, Python, index file or source tree", &options.first, kRequired},
      {"B", "", "Another one", &options.second, kRequired},
      {"--ops", "PATTERN",
       "Compare only ops of this name; * matches any characters;\nmay be repeated",
       &options.selection.ops},
      {"--key", "PATTERN",
       "Compare only the kernels, derivatives and registrations of this\ndispatch key; * matches "
       "any characters; may be repeated",
       &options.selection.keys},
      text_or_json_row(options.format, "optrace.source_comparison/1"),
      output_file_row(options.file),
      terminal_rows(options.terminal),
  };
}

}  // namespace

CommandBody source_compare_command() {
  return command_body<CompareSourceOptions>(option_rows, run);
}

}  // namespace optrace

#include "src/commands/source_compare.h"

#include <memory>
#include <string>

#include "indexer/store/index_store.h"
#include "lookup/source_compare/source_comparison.h"
#include "lookup/source_compare/source_comparison_output.h"
#include "platform/error.h"
#include "src/commands/command.h"
#include "src/inputs/index_operand.h"
#include "src/options/common_options.h"
#include "src/terminal/command_output.h"
#include "src/terminal/standard_output.h"
#include "src/terminal/terminal.h"

namespace optrace {
namespace {

struct CompareSourceOptions {
  std::string first, second;
  SourceComparisonOptions selection;
  std::string format = "text";
  std::string file;
  TerminalOptions terminal;
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
  if (options.format == "json") {
    output.write_whole(to_json(comparison, before, after));
  } else {
    const OutputTarget target = options.file.empty() ? standard_output() : OutputTarget{};
    output.write_whole(to_text(comparison, before, after, style_for(options.terminal, target)));
  }
  output.commit();
  if (comparison.differences() != 0) throw CommandEnded(ExitStatus::differs);
  if (!comparison.not_compared.empty()) throw CommandEnded(ExitStatus::usage);
}

}  // namespace

void add_source_compare(Command& source) {
  const auto options = std::make_shared<CompareSourceOptions>();
  Command& command =
      source.add_subcommand("compare",
                            "Show how the ops of two versions of PyTorch differ: schemas, kernels, "
                            "derivatives,\nregistrations, decompositions");
  command.footer(
      "A and B are each a version that has an index, a Python or a virtual environment, an index "
      "file,\nor a source tree.\n"
      "  optrace source compare 2.6.0 2.15.0\n"
      "  optrace source compare old/.venv new/.venv --ops 'conv*' --ops 'aten::_scaled_*'\n"
      "  optrace source compare 2.6.0 2.15.0 --key CUDA --key 'SparseCsr*'\n"
      "Exit status: 0 if there is no difference, 1 if there is one, 2 if that is unknown because "
      "an "
      "index\nlacks a part.");
  command.add_positional("A", options->first, "A version, Python, index file or source tree")
      .required();
  command.add_positional("B", options->second, "Another one").required();
  command
      .add_option("--ops", options->selection.ops,
                  "Compare only ops of this name; * matches any characters;\nmay be repeated")
      .type_name("PATTERN");
  command
      .add_option("--key", options->selection.keys,
                  "Compare only the kernels, derivatives and registrations of this\ndispatch key; "
                  "* matches any characters; may be repeated")
      .type_name("PATTERN");
  command
      .add_option("--format", options->format, "text, or json (schema optrace.source_comparison/1)")
      .one_of({"text", "json"})
      .type_name("FORMAT")
      .show_default();
  add_output_file_option(command, options->file);
  add_terminal_options(command, options->terminal);
  command.callback([options] { run(*options); });
}

}  // namespace optrace

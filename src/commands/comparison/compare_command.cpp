#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/core.h>

#include "platform/error.h"
#include "platform/files/output_file.h"
#include "platform/files/output_sink.h"
#include "report/compare/baseline.h"
#include "report/compare/compare.h"
#include "report/compare/formats/comparison_output.h"
#include "report/compare/formats/comparison_page.h"
#include "report/compare/summed_threads.h"
#include "report/json/report_json.h"
#include "report/model/shortfalls.h"
#include "src/commands/command.h"
#include "src/commands/tracing/command_input.h"
#include "src/inputs/page_choice.h"
#include "src/options/common_options.h"
#include "src/terminal/command_output.h"
#include "src/terminal/standard_output.h"
#include "src/terminal/terminal.h"

namespace optrace {
namespace {

struct CompareCommandOptions : AnswerOptions {
  std::string first, second;
  std::string baseline;
  bool update = false;
  bool all = false;
  bool source = true;  ///< The page shows lines of source files.
};

void require_inputs(const CompareCommandOptions& options) {
  if (options.first.empty() || (options.second.empty() && options.baseline.empty())) {
    throw Error(ExitStatus::usage, "a comparison needs two inputs",
                "Give two traces, reports or commands, or one of them and --baseline FILE.");
  }
  if (!options.second.empty() && !options.baseline.empty()) {
    throw Error(ExitStatus::usage, "--baseline replaces one of the two inputs",
                "Give one trace, report or command in addition to --baseline.");
  }
  if (options.update && options.baseline.empty()) {
    throw Error(ExitStatus::usage, "--update writes a baseline, but there is no --baseline",
                "Name its file with --baseline FILE.");
  }
  if (!options.baseline.empty() && options.baseline == options.file) {
    throw Error(ExitStatus::usage,
                fmt::format("{} can't hold both the baseline and the comparison", options.file),
                "Give --baseline and -o different files.");
  }
}

ComparisonLabels labels_of(const CompareCommandOptions& options) {
  return options.baseline.empty() ? ComparisonLabels{options.first, options.second}
                                  : ComparisonLabels{options.baseline, options.first};
}

std::string page_of(const CompareCommandOptions& options, const Report& first, const Report& second,
                    const Comparison& comparison) {
  std::vector<std::filesystem::path> traces;
  for (const std::string& input : {options.first, options.second})
    if (std::error_code ignored; std::filesystem::exists(input, ignored))
      traces.emplace_back(input);
  // A baseline does not say which torch it is of.
  const Report& sourced = first.recording.torch_folder.empty() ? second : first;
  return written([&](OutputSink& sink) {
    to_html_page(first, second, comparison, labels_of(options), {.all = options.all},
                 page_options(sourced, traces, options.source), sink);
  });
}

std::string text_of(const CompareCommandOptions& options, const Report& first, const Report& second,
                    const Comparison& comparison) {
  if (options.format == "json") return to_json(first, second, comparison);
  const ComparisonLabels labels = labels_of(options);
  if (options.format == "html") return page_of(options, first, second, comparison);
  return to_text(first, second, comparison, labels, options.style());
}

void require_format(const CompareCommandOptions& options) {
  if (options.format != "html" || !options.file.empty() || !standard_output().terminal) return;
  throw Error(ExitStatus::usage, "--format html is for a file; it is not written to a terminal",
              "Name a file with -o FILE.");
}

/// Refuses to write an incomplete baseline, which would make every later comparison inconclusive.
void write_baseline(const Report& report, const std::string& file) {
  const auto lacks = std::ranges::find_if(report.shortfalls, [](const Shortfall& shortfall) {
    return may_hide_differences({shortfall});
  });
  if (lacks != report.shortfalls.end()) {
    throw Error(ExitStatus::usage,
                fmt::format("{} is not written, because it would be incomplete: {}", file,
                            sentence_of(*lacks)),
                std::string(kind_of(*lacks).remedy));
  }
  OutputFile output(file);
  to_json(for_baseline(report), output);
  output.commit();
}

Report read_compared(const std::string& input, bool times) {
  return with_threads_summed(read_input(input, times).report);
}

void run(const CompareCommandOptions& options) {
  require_inputs(options);
  require_format(options);
  CommandOutput output(options.file);
  std::error_code ignored;
  const bool is_new =
      !options.baseline.empty() && !std::filesystem::exists(options.baseline, ignored);
  if (is_new && !options.update) {
    throw Error(ExitStatus::usage, fmt::format("the baseline {} does not exist", options.baseline),
                "Create it with --update.");
  }
  if (options.update) const OutputFile trial(options.baseline);
  if (is_new) {
    write_baseline(read_compared(options.first, false), options.baseline);
    write_message(fmt::format("{} was created", options.baseline));
    return;
  }
  const bool times = options.format == "html";
  const Report first = options.baseline.empty() ? read_compared(options.first, times)
                                                : read_input_file(options.baseline, times).report;
  const Report second =
      read_compared(options.baseline.empty() ? options.second : options.first, times);
  const Comparison comparison = compare(first, second, {.all = options.all});
  output.write_whole(text_of(options, first, second, comparison));
  if (options.update && !comparison.differences.empty()) write_baseline(second, options.baseline);
  output.commit();
  if (options.update) {
    write_message(fmt::format("{} {}", options.baseline,
                              comparison.differences.empty() ? "is unchanged" : "was updated"));
  } else if (!comparison.differences.empty()) {
    throw CommandEnded(ExitStatus::differs);
  } else if (!comparison.conclusive) {
    throw CommandEnded(ExitStatus::usage);
  }
}

OptionRows option_rows(CompareCommandOptions& options) {
  return {
      {"A", "", "A trace, a report, or a command in quotes", &options.first},
      {"B", "", "Another one, of the same call or program", &options.second},
      {"--baseline", "FILE",
       "An earlier report that is used as A; the trace, report or\ncommand given is then B",
       &options.baseline},
      {"--update", "", "Write the baseline if it differs or does not exist", &options.update},
      format_row(
          options.format,
          {{"text"}, {"json", "schema optrace.comparison/1"}, {"html", "one interactive page"}}),
      {"--all", "", "For different builds of PyTorch, also list the functions\nbetween the steps",
       &options.all},
      no_source_row(options.source),
      output_file_row(options.file),
      terminal_rows(options.terminal),
  };
}

}  // namespace

CommandBody compare_command() {
  return command_body<CompareCommandOptions>(option_rows, run);
}

}  // namespace optrace

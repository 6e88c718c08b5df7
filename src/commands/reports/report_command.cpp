#include "src/commands/reports/report_command.h"

#include <cstddef>
#include <cstdio>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "platform/error.h"
#include "platform/files/output_file.h"
#include "platform/files/output_sink.h"
#include "report/formats/perfetto.h"
#include "report/merge/merge.h"
#include "report/merge/timeline.h"
#include "report/merge/trace_index.h"
#include "report/model/shortfalls.h"
#include "report/tensors/tensor_log.h"
#include "src/commands/command.h"
#include "src/commands/reports/job_traces.h"
#include "src/inputs/local_sources.h"
#include "src/inputs/page_choice.h"
#include "src/options/common_options.h"
#include "src/options/finding_options.h"
#include "src/terminal/pager.h"
#include "src/terminal/printable_sink.h"
#include "src/terminal/standard_output.h"
#include "src/tree_browser/screen.h"
#include "src/tree_browser/tree_browser.h"

namespace optrace {
namespace {

/// Writes the bytes of a format that is not text to standard output.
class StandardOutputSink : public OutputSink {
 public:
  void write(std::string_view bytes) override { open_ = open_ && write_bytes(bytes); }

 private:
  bool open_ = true;  // False once the reader has gone.
};

/// Writes a format to a sink. The target is the terminal or file that gets it.
using Render = std::function<void(const OutputTarget& target, OutputSink& sink)>;

void write_binary(const OutputOptions& options, const Render& render_to) {
  if (options.file.empty()) {
    StandardOutputSink sink;
    render_to({}, sink);
    return;
  }
  OutputFile file(options.file);
  render_to({}, file);
  file.commit();
}

/// Writes text to a destination piece by piece.
void write_text(const OutputTarget& target, const Render& render_to,
                PrintableSink::Destination destination) {
  PrintableSink sink(std::move(destination));
  render_to(target, sink);
  sink.finish();
}

void write_format(const OutputOptions& options, ReportStream stream, const Render& render_to) {
  if (options.format().is_binary) {
    write_binary(options, render_to);
  } else if (!options.file.empty()) {
    OutputFile file(options.file);
    write_text({}, render_to, [&file](std::string_view text) {
      file.write(text);
      return true;
    });
    file.commit();
  } else if (stream == ReportStream::error) {
    write_text(standard_error(), render_to, write_standard_error);
  } else if (const OutputTarget target = standard_output(); target.terminal) {
    // Whether it goes through the pager depends on its length.
    write_answer(written([&](OutputSink& sink) { render_to(target, sink); }));
  } else {
    write_text(target, render_to, write_standard_output);
  }
}

void browse_report(const Report& report, const OutputOptions& options) {
  browse_tree(report, {.colour = style_for(options.terminal, standard_output()).colour,
                       .find = find_in(LocalSources(report))});
}

void write_report(const Report& report, const OutputOptions& options, ReportStream stream) {
  if (options.interactive) {
    browse_report(report, options);
    return;
  }
  const ReportFormat& format = options.format();
  FormatOptions shown{.text = options.tree};
  if (format.parts.source)
    shown.page = page_options(report, shown.text.trace_files, options.page_source);
  write_format(options, stream, [&](const OutputTarget& target, OutputSink& sink) {
    shown.text.width = target.width;
    shown.text.style = style_for(options.terminal, target, find_in(LocalSources(report)));
    format.write(report, shown, sink);
  });
}

/// Throws Error(usage) if the report would be written to a stream that must not have its format.
void require_format(const OutputOptions& options, ReportStream stream) {
  if (!options.file.empty() || !options.format().is_binary) return;
  if (stream == ReportStream::output && !standard_output().terminal) return;
  throw Error(
      ExitStatus::usage,
      fmt::format("--format {} is for a file; it is not written to {}", options.format().name,
                  stream == ReportStream::output ? "a terminal" : "standard error"),
      "Name a file with -o FILE.");
}

/// Throws Error(usage) if -i can't be followed.
void require_browser(const OutputOptions& options) {
  if (options.asked_format != nullptr || !options.file.empty())
    throw Error(ExitStatus::usage,
                fmt::format("-i shows the tree on the terminal, and {} asks for another output",
                            options.asked_format != nullptr ? "--format" : "-o"),
                "Omit one of the two.");
  require_terminal();
}

/// Tells the user if a timeline lacks the last events.
void warn_of_timeline_end(const Report& report) {
  for (const Shortfall& shortfall : report.shortfalls)
    if (kind_of(shortfall).effect == ShortfallEffect::timeline)
      write_message(sentence_of(shortfall), kind_of(shortfall).remedy);
}

/// Returns the report of a trace. Writes warnings about the index.
Report report_of(const Trace& trace, const OutputOptions& options) {
  std::vector<std::string> warnings;
  const std::optional<Index> index = find_index_of(trace, &warnings);
  for (const std::string& warning : warnings) write_message(warning);
  MergeOptions parts = merge_options(options.format(), options.tree, has_timeline(trace));
  parts.times = parts.times || options.interactive || options.selection.needs_times();
  Report report = merge(trace, index ? &*index : nullptr, parts);
  select_frames(report, options.selection);
  if (report.timeline) warn_of_timeline_end(report);
  return report;
}

/// Writes the timelines of several processes. `take_trace(i)` returns the trace of each.
template <class TakeTrace>
void write_timelines(std::size_t count, const TakeTrace& take_trace, const OutputOptions& options,
                     ReportStream stream) {
  write_format(options, stream, [&](const OutputTarget&, OutputSink& sink) {
    PerfettoWriter writer(sink);
    for (std::size_t i = 0; i < count; ++i) {
      writer.add(report_of(take_trace(i), options));
    }
    writer.finish();
  });
}

/// The options that show a part of the report.
OptionRow frame_selection_rows(FrameSelection& selection) {
  return OptionRows{
      {"--under",
       "WHAT",
       "Only calls of WHAT, and what is below them: an op (aten::mm), a\nfunction (Block.forward) "
       "or a line of Python code (train.py:17);\n* matches any characters. May be repeated",
       &selection.under,
       {.several = SeveralValues::each_time}},
      {"--ops",
       "PATTERN",
       "Only ops of this name, and what they call; * matches any\ncharacters",
       &selection.ops,
       {.several = SeveralValues::each_time}},
      {"--depth", "N", "Only N levels of the selected calls", &selection.depth, WholeNumber(1)},
      {"--top", "N", "Only the N frames with the most time of their own", &selection.top,
       WholeNumber(1)},
      {"--min-time", "TIME", "Only frames that took this long, in all calls: 50us, 1ms, 2s",
       &selection.min_time, TimeWithUnit()},
  };
}

OptionRow report_format_row(OutputOptions& options, std::string usual) {
  const auto take_format = [&options](const std::string& name) {
    options.asked_format = &report_format(name);
  };
  return format_row(take_format, names_of(report_formats()), std::move(usual));
}

}  // namespace

OptionRow output_rows(OutputOptions& options) {
  return output_rows(options, std::string(options.usual_format->name));
}

OptionRow output_rows(OutputOptions& options, std::string usual_format) {
  return OptionRows{
      report_format_row(options, std::move(usual_format)),
      output_file_row(options.file),
      {"--all", "",
       "Show every frame, also wrapper templates, the interpreter's\nframes and runtime libraries",
       &options.tree.all},
      {"--why", "",
       "Below each dispatcher frame, show the chosen key, the key\nset and the fallthrough keys "
       "(JSON always has them)",
       &options.tree.why},
      {"--tensors", "",
       "Below each op, show where its tensors are: their storages, and\nwhat is a view, a copy, or "
       "written in place",
       &options.tree.tensors},
      {"--times", "",
       "Show how long each path took: the total, and the shortest\nand longest of several calls",
       &options.tree.times},
      no_source_row(options.page_source),
      ignore_row(options.tree.findings),
      terminal_rows(options.terminal),
  };
}

OptionRow interactive_row(OutputOptions& options) {
  return {"-i,--interactive", "",
          "Show the tree in the terminal, to fold and to search; ? there\nshows the keys",
          &options.interactive};
}

void require_output(const OutputOptions& options, ReportStream stream) {
  if (options.interactive) require_browser(options);
  require_format(options, stream);
  if (!options.file.empty())
    const OutputFile trial(options.file);
  else if (stream == ReportStream::output)
    require_standard_output();
}

void require_other_file(const std::string& file, const OutputOptions& options) {
  if (!file.empty() && file == options.file) {
    throw Error(ExitStatus::usage, fmt::format("{} can't hold both the trace and the report", file),
                "Give --trace and -o different files.");
  }
}

void write_report(std::span<const Trace> traces, const OutputOptions& options,
                  ReportStream stream) {
  if (options.format().needs_timeline()) {
    const auto take = [&](std::size_t i) -> const Trace& { return traces[i]; };
    write_timelines(traces.size(), take, options, stream);
    return;
  }
  const Report report = traces.size() == 1 ? report_of(traces.front(), options)
                                           : report_of(merge_traces(traces), options);
  write_report(report, options, stream);
}

namespace {

struct ReportCommandOptions {
  std::vector<std::string> traces;
  OutputOptions output;
};

/// Reads the traces and returns their report.
Report report_of_files(ReportCommandOptions& options) {
  const std::vector<std::string>& files = options.traces;
  const TraceParts parts =
      options.output.format().shows_timeline() ? TraceParts::all : TraceParts::without_events;
  // Its memory is free for what writes the report.
  const Trace trace = files.size() == 1 ? read_trace(files[0], parts) : merge_trace_files(files);
  if (options.output.tree.tensors && !has_tensor_log(trace)) {
    throw Error(ExitStatus::usage, "the trace does not have where its tensors are",
                "Give one trace that was made with --tensors: a merged one has not, either.");
  }
  if (trace.meta.op.empty()) options.output.usual_format = &report_format("summary");
  return report_of(trace, options.output);
}

void run(ReportCommandOptions& options) {
  require_output(options.output);
  const std::vector<std::string>& files = options.traces;
  if (const auto* const format = options.output.asked_format;
      format != nullptr && format->needs_timeline()) {
    const auto take = [&](std::size_t i) { return read_trace(files[i]); };
    write_timelines(files.size(), take, options.output, ReportStream::output);
    return;
  }
  options.output.tree.trace_files = {files.begin(), files.end()};
  // Never freed: the system does it at once, while half a million frames take a tenth of the
  // time.
  static const Report* const report = new Report(report_of_files(options));
  write_report(*report, options.output, ReportStream::output);
}

OptionRows option_rows(ReportCommandOptions& options) {
  return {
      {"TRACE", "",
       "Files written by --trace FILE or by `optrace merge`: of one call\nor program, or of the "
       "processes of one job",
       &options.traces, kRequired},
      frame_selection_rows(options.output.selection),
      output_rows(options.output, "text for an op, summary for a program"),
      interactive_row(options.output),
  };
}

}  // namespace

CommandBody report_command() {
  return command_body<ReportCommandOptions>(option_rows, run);
}

}  // namespace optrace

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "platform/text/joined.h"
#include "platform/text/printable_text.h"
#include "present/readable_numbers.h"
#include "pytorch/symbols/symbol_name.h"
#include "report/compiled/fused_kernels.h"
#include "report/findings/findings.h"
#include "report/formats/formats.h"
#include "report/formats/writers.h"
#include "report/lines/compilation_text.h"
#include "report/lines/failures.h"
#include "report/lines/report_header.h"
#include "report/lines/suggested_commands.h"
#include "report/model/frame_name.h"
#include "report/model/user_code.h"
#include "report/summary/library_usage.h"
#include "report/summary/memory_usage.h"
#include "report/summary/op_usage.h"
#include "report/summary/user_lines.h"

namespace optrace {
namespace {

// Lines of the whole summary.
constexpr std::size_t kMaxLines = 60;

// Entries of each list in the header.
constexpr std::size_t kMaxHeaderEntries = 4;

// Rows of each section, if there is room for them.
constexpr std::size_t kMaxOwnLines = 8;
constexpr std::size_t kMaxFindings = 10;
constexpr double kLeastShare = 0.0005;  // Of the time, which is shown as 0.1 %.
constexpr std::size_t kMaxOps = 12;
constexpr std::size_t kMaxFused = 8;
constexpr std::size_t kMaxNotFused = 4;
constexpr std::size_t kMaxFunctions = 4;
constexpr std::size_t kMaxMemoryRows = 6;

constexpr std::size_t kMaxOpsOfLine = 3;
constexpr std::size_t kMaxFailures = 3;

// A list of the summary, with the heading of its columns.
struct Section {
  std::string heading;            // Empty if the rows have no columns.
  std::vector<std::string> rows;  // As many as may be shown.
  std::size_t all = 0;            // Number of rows that there are.
  std::string_view one, several;  // What a row is, and rows are.
  std::string_view see;           // Shows all of them.
  std::size_t shown = 0;          // Number of rows that there is room for.
};

// Returns how many of all rows may be shown. A last row takes no more room than the line about it.
std::size_t most_rows(std::size_t all, std::size_t usual) {
  return all == usual + 1 ? all : std::min(all, usual);
}

std::size_t lines_of(const Section& section) {
  const std::size_t more = section.shown < section.all ? 1 : 0;
  return (section.heading.empty() ? 0 : 1) + section.shown + more + 1;
}

// Shortens the longest sections until all of them have at most `room` lines, or a row each.
void fit(std::vector<Section>& sections, std::size_t room) {
  const auto lines = [&] {
    std::size_t sum = 0;
    for (const Section& section : sections) sum += lines_of(section);
    return sum;
  };
  for (Section& section : sections) section.shown = section.rows.size();
  while (lines() > room) {
    // Of equally long ones, the last: what comes first is more important.
    const auto longest = std::ranges::max_element(sections.rbegin(), sections.rend(), {},
                                                  [](const Section& one) { return one.shown; });
    if (longest == sections.rend() || longest->shown <= 1) return;
    --longest->shown;
  }
  // See most_rows().
  for (Section& section : sections)
    if (section.shown + 1 == section.all && section.rows.size() == section.all) ++section.shown;
}

class SummaryWriter {
 public:
  SummaryWriter(const Report& report, const ReportTextOptions& options, OutputSink& sink)
      : options_(options), sink_(sink), report_(report) {}

  void write() {
    const std::string header = report_header(report_, options_, kMaxHeaderEntries);
    sink_.write(header);
    const std::size_t failed = failed_calls();
    const std::vector<UserLine> lines = user_lines(report_);
    std::uint64_t calls = 0;
    for (const UserLine& line : lines) {
      calls += line.calls;
      total_ += line.total;
    }
    if (calls == 0) {
      line("No op ran.");
      return;
    }
    line(fmt::format("{} in {} of ops{} and autograd nodes, not counting those inside of others",
                     readable_time(total_),
                     calls == 1 ? "1 call" : readable_count(calls) + " calls",
                     report_.compilations.empty() ? "" : ", compiled kernels"));
    line("");
    user_code(lines);
    findings();
    const std::vector<OpUsage> all_ops = op_usage(report_);
    ops(all_ops);
    fused();
    not_fused();
    libraries();
    const std::string suggestions = suggestion_lines(
        commands_for_traces(options_, all_ops.empty() ? "" : all_ops[0].op), options_.style);
    constexpr std::size_t kTotal = 2;
    const std::size_t taken = line_count(header) + failed + kTotal + line_count(suggestions);
    fit(sections_, kMaxLines - std::min(kMaxLines, taken));
    for (const Section& section : sections_) write(section);
    sink_.write(suggestions);
  }

 private:
  void line(std::string_view content) {
    sink_.write(content);
    sink_.write("\n");
  }

  // Writes the failed calls of a program that failed, with the lines that made them. Returns the
  // number of lines.
  std::size_t failed_calls() {
    if (report_.recording.exit_status == 0) return 0;
    const std::vector<Failure> all = failures(report_);
    const std::span shown = std::span(all).first(std::min(all.size(), kMaxFailures));
    for (const Failure& failure : shown) {
      std::string text = fmt::format("{:<12}{}", failure.refused ? "refused" : "failed",
                                     short_name(failure.path.back()->name));
      for (const std::string& more : {failure.error, failure.why})
        if (!more.empty()) text += ": " + more;
      std::vector<const Frame*> path;
      std::size_t user_frame = kNoUserFrame;
      for (const Frame* const frame : failure.path) {
        path.push_back(frame);
        user_frame = innermost_user_frame(path, user_frame);
      }
      if (const FrameSource* const source = source_at(path, user_frame))
        text += fmt::format(", called from {}:{} {}", source->file, calling_line(path, user_frame),
                            frame_name(*path[user_frame]));
      line(options_.style.paint(fitted(printable(text)), kWarning));
    }
    if (!shown.empty()) line("");
    return shown.empty() ? 0 : shown.size() + 1;
  }

  static std::size_t line_count(std::string_view text) {
    return static_cast<std::size_t>(std::ranges::count(text, '\n'));
  }

  void write(const Section& section) {
    if (!section.heading.empty()) line(section.heading);
    for (const std::string& row : std::span(section.rows).first(section.shown)) line(row);
    const std::size_t more = section.all - section.shown;
    if (more != 0)
      line(options_.style.paint(
          fitted(fmt::format("{:>27}and {} more {}, see {}", "", more,
                             more == 1 ? section.one : section.several, section.see)),
          kDim));
    line("");
  }

  std::string heading(std::string_view what) const {
    return options_.style.paint(
        fitted(fmt::format("{:>8} {:>6} {:>9}  {}", "time", "", "calls", what)), kDim);
  }

  Section& add_section(std::string_view what, std::size_t all, std::string_view one,
                       std::string_view several, std::string_view see) {
    return sections_.emplace_back(Section{heading(what), {}, all, one, several, see});
  }

  // Returns a row. `rest` is cut off at the width of the terminal. It may start with `shown`, the
  // text of a place to link.
  std::string row(std::uint64_t time, std::uint64_t calls, std::string_view rest,
                  std::string_view shown = {}, const FilePlace& place = {}) const {
    const std::string share = total_ == 0 || time == 0 || time > total_
                                  ? ""
                                  : fmt::format("{:.1f} %", 100 * static_cast<double>(time) /
                                                                static_cast<double>(total_));
    const std::string shown_time = time == 0 ? "" : readable_time(time);
    std::string text = std::string(8 - std::min<std::size_t>(8, columns(shown_time)), ' ');
    text += fmt::format("{} {:>6} {:>9}  ", shown_time, share, readable_count(calls));
    const std::size_t start = text.size();
    text = fitted(text + printable(rest));
    if (const std::string linked = printable(shown);
        std::string_view(text).substr(std::min(start, text.size())).starts_with(linked))
      text.replace(start, linked.size(), options_.style.link(linked, place));
    return text;
  }

  // Returns the beginning of a line that is too wide, with an ellipsis.
  std::string fitted(const std::string& text) const {
    if (options_.width == 0 || columns(text) <= options_.width) return text;
    std::size_t width = 0, end = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U;
      if (begins && ++width == options_.width) end = i;
    }
    return text.substr(0, end) + "…";
  }

  void user_code(const std::vector<UserLine>& lines) {
    Section& section =
        add_section("from lines of the program, and the ops and autograd nodes that they lead to",
                    lines.size(), "line", "lines", "--format html");
    const std::span shown = std::span(lines).first(most_rows(lines.size(), kMaxOwnLines));
    for (const UserLine& one : shown) {
      const bool known = !one.file.empty();
      const std::string place =
          known ? fmt::format("{}:{}", short_file(one.file, shown), one.line) : "";
      const std::string from = known ? fmt::format("{} {}", place, one.function) : one.why_no_line;
      section.rows.push_back(row(one.total, one.calls, fmt::format("{}  {}", from, ops_of(one)),
                                 place, {.file = one.file, .line = one.line}));
    }
  }

  // Returns the ops of a line, the one with the most time first.
  static std::string ops_of(const UserLine& line) {
    std::vector<std::pair<std::string, std::uint64_t>> ops(line.ops.begin(), line.ops.end());
    std::ranges::stable_sort(ops, std::greater{}, &std::pair<std::string, std::uint64_t>::second);
    std::string text;
    for (std::size_t i = 0; i < std::min(ops.size(), kMaxOpsOfLine); ++i)
      text += fmt::format("{}{}", i == 0 ? "" : ", ", ops[i].first);
    if (ops.size() > kMaxOpsOfLine) text += fmt::format(" and {} more", ops.size() - kMaxOpsOfLine);
    return text;
  }

  void findings() {
    const std::vector<Finding> all = find(report_, options_.findings);
    const auto is_small = [](const Finding& one) { return one.share && *one.share < kLeastShare; };
    if (std::ranges::all_of(all, is_small)) return;
    Section& section = add_section("in findings: what makes the program slow", all.size(),
                                   "finding", "findings", "optrace findings");
    for (const Finding& one : std::span(all).first(std::min(all.size(), kMaxFindings))) {
      if (is_small(one)) continue;
      const std::string place = fmt::format("{}:{}", short_file(one.file, all), one.line);
      section.rows.push_back(row(one.cost_ns, one.calls,
                                 fmt::format("{} {}: {}", place, one.rule->name, one.message),
                                 place, {.file = one.file, .line = one.line}));
    }
  }

  void ops(const std::vector<OpUsage>& all) {
    Section& section = add_section("in ops, not counting ops inside; what did the work; inputs",
                                   all.size(), "op", "ops", "--format csv");
    for (const OpUsage& usage : std::span(all).first(most_rows(all.size(), kMaxOps))) {
      std::string rest = usage.op;
      const MainWork work = main_work(usage.work);
      if (!work.name.empty()) rest += "  " + work.name;
      if (work.others > 0) rest += fmt::format(" +{}", work.others);
      if (const std::string inputs = most_of(usage.inputs); !inputs.empty()) {
        rest += "  " + inputs;
        if (usage.inputs.size() > 1) rest += fmt::format(" and {} more", usage.inputs.size() - 1);
      }
      section.rows.push_back(row(usage.own, usage.calls, rest));
    }
  }

  void fused() {
    const std::vector<FusedKernel> all = fused_kernels(report_);
    if (all.empty()) return;
    Section& section =
        add_section("in kernels that torch.compile generated; what it fused into each", all.size(),
                    "kernel", "kernels", "--format json");
    for (const FusedKernel& kernel : std::span(all).first(most_rows(all.size(), kMaxFused))) {
      std::string rest = kernel.name + " ";
      for (const FusedLine& one : kernel.lines) {
        if (!one.file.empty())
          rest += fmt::format(" {}:{}", short_file(one.file, kernel.lines), one.line);
        if (!one.ops.empty()) rest += fmt::format(" {}", joined(one.ops, ", "));
        if (&one != &kernel.lines.back()) rest += ';';
      }
      section.rows.push_back(row(kernel.total, kernel.calls, rest));
    }
  }

  void not_fused() {
    Section section;
    section.one = "pair of kernels";
    section.several = "pairs of kernels";
    section.see = "--format json";
    for (const Compilation& compilation : report_.compilations)
      for (const CompiledGraph* const graph : graphs_of(compilation))
        for (const std::string& pair : pairs_not_fused(*graph))
          if (++section.all <= kMaxNotFused) section.rows.push_back(fitted("not fused: " + pair));
    if (section.all != 0) sections_.push_back(std::move(section));
  }

  void libraries() {
    const LibraryUsage usage = library_usage(report_);
    functions(usage.functions, "in libraries, by all threads", "function", "functions");
    functions(usage.kernels, "in kernels on the device", "kernel", "kernels");
    memory(usage.copies);
  }

  void memory(const std::vector<CopyUsage>& copies) {
    Section section;
    section.one = "copy or allocation";
    section.several = "copies and allocations";
    section.see = "--format json";
    const auto add = [&](const std::string& text) {
      if (++section.all <= kMaxMemoryRows) section.rows.push_back(fitted(text));
    };
    for (const CopyUsage& copy : copies)
      add(fmt::format("copied {}: {} in {} {}", printable(copy.direction),
                      readable_size(copy.bytes), readable_count(copy.calls),
                      copy.calls == 1 ? "copy" : "copies"));
    for (const NewTensors& created : new_tensors(report_))
      if (created.device != "meta")
        add(fmt::format("allocated on {}: {} in {} new tensors, over the whole run",
                        printable(created.device), readable_size(created.bytes),
                        readable_count(created.count)));
    if (section.all != 0) sections_.push_back(std::move(section));
  }

  void functions(const std::vector<FunctionUsage>& all, std::string_view what, std::string_view one,
                 std::string_view several) {
    if (all.empty()) return;
    Section& section = add_section(what, all.size(), one, several, "--format html");
    for (const FunctionUsage& function : std::span(all).first(most_rows(all.size(), kMaxFunctions)))
      section.rows.push_back(row(function.total, function.calls,
                                 function.library.empty()
                                     ? function.name
                                     : fmt::format("{}  {}", function.library, function.name)));
  }

  const ReportTextOptions& options_;
  OutputSink& sink_;
  const Report& report_;
  std::uint64_t total_ = 0;  // Nanoseconds in ops.
  std::vector<Section> sections_;
};

}  // namespace

void to_summary(const Report& report, const FormatOptions& options, OutputSink& sink) {
  SummaryWriter(report, options.text, sink).write();
}

}  // namespace optrace

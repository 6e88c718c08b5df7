#include "report/output/summary_text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "platform/printable_text.h"
#include "report/findings/findings.h"
#include "report/output/readable_numbers.h"
#include "report/output/report_header.h"
#include "report/output/suggested_commands.h"
#include "report/summary/library_usage.h"
#include "report/summary/memory_usage.h"
#include "report/summary/op_usage.h"
#include "report/summary/own_lines.h"

namespace optrace {
namespace {

// Numbers of rows. With headings and the header, about 60 lines.
constexpr std::size_t kMaxLines = 8;
constexpr std::size_t kMaxFindings = 10;
constexpr std::size_t kMaxOps = 12;
constexpr std::size_t kMaxFunctions = 4;
constexpr std::size_t kMaxOpsOfLine = 3;

class SummaryWriter {
 public:
  SummaryWriter(const Report& report, const ReportTextOptions& options, OutputSink& sink)
      : options_(options), sink_(sink), report_(report) {}

  void write() {
    sink_.write(report_header(report_, options_));
    const std::vector<OwnLine> lines = own_lines(report_);
    std::uint64_t calls = 0;
    for (const OwnLine& line : lines) {
      calls += line.calls;
      total_ += line.total;
    }
    if (calls == 0) {
      line("No op ran.");
      return;
    }
    line(fmt::format("{} in {} of ops and autograd nodes, not counting those inside of others",
                     readable_time(total_),
                     calls == 1 ? "1 call" : readable_count(calls) + " calls"));
    line("");
    own_code(lines);
    findings();
    const std::vector<OpUsage> all_ops = op_usage(report_);
    ops(all_ops);
    libraries();
    sink_.write(suggestion_lines(
        commands_for_traces(options_, all_ops.empty() ? "" : all_ops[0].op), options_.style));
  }

 private:
  void line(std::string_view content) {
    sink_.write(content);
    sink_.write("\n");
  }

  void heading(std::string_view what) {
    line(options_.style.paint(
        fitted(fmt::format("{:>8} {:>6} {:>9}  {}", "time", "", "calls", what)), kDim));
  }

  // Writes a row. `rest` is cut off at the width of the terminal. It may start with `shown`, the
  // text of a place to link.
  void row(std::uint64_t time, std::uint64_t calls, std::string_view rest,
           std::string_view shown = {}, const FilePlace& place = {}) {
    const std::string share = total_ == 0 || time == 0
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
    line(text);
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

  void more(std::size_t shown, std::size_t all, std::string_view what) {
    if (shown < all)
      line(options_.style.paint(fmt::format("{:>27}{} more {}", "", all - shown, what), kDim));
    line("");
  }

  void own_code(const std::vector<OwnLine>& lines) {
    heading("from lines of the program, and the ops and autograd nodes that they lead to");
    const std::vector<OwnLine> shown(
        lines.begin(), lines.begin() + std::min<std::ptrdiff_t>(std::ssize(lines), kMaxLines));
    for (const OwnLine& one : shown) {
      const bool known = !one.file.empty();
      const std::string place =
          known ? fmt::format("{}:{}", short_file(one.file, shown), one.line) : "";
      row(one.total, one.calls,
          fmt::format(
              "{}  {}",
              known ? fmt::format("{} {}", place, one.function) : "no line of the program is known",
              ops_of(one)),
          place, {.file = one.file, .line = one.line});
    }
    more(shown.size(), lines.size(), "lines");
  }

  // Returns the end of a path that no other file among the lines has.
  template <class Place>
  static std::string_view short_file(std::string_view file, const std::vector<Place>& lines) {
    for (std::size_t slash = file.rfind('/'); slash != std::string_view::npos && slash != 0;
         slash = file.rfind('/', slash - 1)) {
      const std::string_view end = file.substr(slash);
      if (std::ranges::none_of(lines, [&](const Place& other) {
            return other.file != file && (other.file.ends_with(end) || other.file == end.substr(1));
          }))
        return end.substr(1);
    }
    return file;
  }

  // Returns the ops of a line, the one with the most time first.
  static std::string ops_of(const OwnLine& line) {
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
    if (all.empty()) return;
    heading("in findings: what makes the program slow");
    const std::size_t shown = std::min(all.size(), kMaxFindings);
    for (const Finding& one : std::span(all).first(shown)) {
      const std::string place = fmt::format("{}:{}", short_file(one.file, all), one.line);
      row(one.cost_ns, one.calls, fmt::format("{} {}: {}", place, one.rule->name, one.message),
          place, {.file = one.file, .line = one.line});
    }
    more(shown, all.size(), "findings");
  }

  void ops(const std::vector<OpUsage>& all) {
    heading("in ops, not counting ops inside; what did the work; inputs");
    const std::size_t shown = std::min(all.size(), kMaxOps);
    for (const OpUsage& usage : std::span(all).first(shown)) {
      std::string rest = usage.op;
      if (const std::string work = most_of(usage.work); !work.empty()) rest += "  " + work;
      if (const std::string inputs = most_of(usage.inputs); !inputs.empty()) {
        rest += "  " + inputs;
        if (usage.inputs.size() > 1) rest += fmt::format(" and {} more", usage.inputs.size() - 1);
      }
      row(usage.own, usage.calls, rest);
    }
    more(shown, all.size(), "ops");
  }

  void libraries() {
    const LibraryUsage usage = library_usage(report_);
    functions(usage.functions, "in libraries, by all threads", "functions");
    functions(usage.kernels, "in kernels on the device", "kernels");
    for (const CopyUsage& copy : usage.copies)
      line(fmt::format("copied {}: {} in {} {}", printable(copy.direction),
                       readable_size(copy.bytes), readable_count(copy.calls),
                       copy.calls == 1 ? "copy" : "copies"));
    for (const auto& [device, created] : new_tensors(report_))
      if (device != "meta")
        line(fmt::format("allocated on {}: {} in {} new tensors, over the whole run",
                         printable(device), readable_size(created.bytes),
                         readable_count(created.count)));
    line("");
  }

  void functions(const std::vector<FunctionUsage>& all, std::string_view what,
                 std::string_view noun) {
    if (all.empty()) return;
    heading(what);
    const std::size_t shown = std::min(all.size(), kMaxFunctions);
    for (const FunctionUsage& function : std::span(all).first(shown))
      row(function.total, function.calls,
          function.library.empty() ? function.name
                                   : fmt::format("{}  {}", function.library, function.name));
    more(shown, all.size(), noun);
  }

  const ReportTextOptions& options_;
  OutputSink& sink_;
  const Report& report_;
  std::uint64_t total_ = 0;  // Nanoseconds in ops.
};

}  // namespace

void to_summary(const Report& report, const ReportTextOptions& options, OutputSink& sink) {
  SummaryWriter(report, options, sink).write();
}

}  // namespace optrace

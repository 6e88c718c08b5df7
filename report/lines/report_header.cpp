#include "report/lines/report_header.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "platform/text/joined.h"
#include "platform/text/printable_text.h"
#include "present/readable_numbers.h"
#include "present/terminal_text.h"
#include "pytorch/names/python_names.h"
#include "report/job/process_names.h"
#include "report/lines/compilation_text.h"
#include "report/lines/line_layout.h"
#include "report/model/shortfalls.h"

namespace optrace {
namespace {

class HeaderWriter {
 public:
  HeaderWriter(const Report& report, const ReportTextOptions& options, std::size_t max_entries)
      : report_(report), options_(options), max_entries_(max_entries) {}

  std::string write() {
    const std::string call = report_.recording.call;
    const std::string op = report_.recording.op;
    line(paint(printable(call.empty() ? op.empty() ? "optrace report" : op : call), kBold));
    std::string torch = printable(report_.torch.version);
    if (torch.empty()) torch = "of unknown version";
    const std::string git = printable(report_.torch.git_version);
    field("torch", fmt::format("{}{} on {}{}", torch,
                               git.empty() ? "" : fmt::format(" (git {})", git.substr(0, 8)),
                               report_.device, python()));
    interpreter();
    inputs();
    processes();
    recording();
    steps();
    compilations();
    if (const std::string shown = printable(report_.recording.shown); !shown.empty())
      field("shown", shown);
    dry_run();
    if (!report_.roots.empty()) field("source", source());
    list(warnings(), max_entries_, "warnings", "warning", "warning");
    line("");
    return std::move(text_);
  }

 private:
  std::string python() const {
    const std::string version = printable(report_.recording.python);
    return version.empty() ? "" : fmt::format(", Python {}", version);
  }

  // Prints which Python was found, and where, if it is not the obvious one.
  void interpreter() {
    const std::string path = printable(report_.recording.interpreter);
    if (!path.empty())
      field("python",
            fmt::format("{}, from {}", path, printable(report_.recording.interpreter_from)));
  }

  void inputs() {
    std::vector<std::string> shown;
    for (const CallInput& input : report_.recording.inputs) {
      const std::string shape = !input.shape           ? ""
                                : input.shape->empty() ? "scalar"
                                                       : joined(*input.shape, "×");
      const std::string dtype = printable(without_torch(input.dtype));
      const std::string name = printable(input.name);
      shown.push_back(fmt::format("{}{}{} {}", name, name.empty() ? "" : "  ", shape, dtype));
    }
    list(shown, max_entries_, "inputs", "input", "");
  }

  // Prints how long a program was recorded, and what that took.
  void recording() {
    const std::uint64_t duration = report_.recording.duration;
    if (duration == 0) return;
    const std::uint64_t events = report_.recording.events;
    const std::uint64_t used = report_.recording.command_cpu;
    field("recorded",
          fmt::format("{}, {}{}", readable_time(duration), readable_count(events, "event"),
                      used == 0 ? ""
                                : fmt::format("; optrace's own process used {} of "
                                              "processor time",
                                              readable_time(used))));
  }

  // Prints the steps of the program that were recorded.
  void steps() {
    if (!report_.steps) return;
    const std::uint64_t first = report_.steps->first;
    if (first == 0) return;
    const std::uint64_t count = report_.steps->count;
    const std::uint64_t last = count == 0 ? 0 : first - 1 + count;
    std::string text = last == 0       ? fmt::format("from {} on", first)
                       : last == first ? fmt::format("{}", first)
                                       : fmt::format("{} to {}", first, last);
    const std::uint64_t end = report_.steps->ended_after.value_or(0);
    if (end != 0 && (last == 0 || end < last))
      text += fmt::format("; the program ended after step {}", end);
    field("steps", text);
  }

  // Prints what torch.compile compiled.
  void compilations() {
    if (report_.compilations.empty()) return;
    std::uint64_t time = 0;
    std::uint64_t inductor = 0;
    std::size_t graphs = 0;
    std::size_t again = 0;
    std::set<std::pair<std::string, std::uint32_t>> breaks;  // Files and lines.
    for (const Compilation& one : report_.compilations) {
      for (const CompiledGraph* const graph : graphs_of(one)) {
        time += graph->time;
        inductor += graph->inductor_time;
      }
      if (one.graph_ops != 0) ++graphs;  // Others compiled no op.
      if (!one.recompile_reasons.empty()) ++again;
      for (const GraphBreak& broken : one.breaks) breaks.emplace(broken.file, broken.line);
    }
    if (graphs == 0) graphs = report_.compilations.size();  // This torch doesn't tell.
    std::string text = readable_count(graphs, "graph");
    if (time != 0) text += fmt::format(" in {}", readable_time(time));
    if (inductor != 0) text += fmt::format(", of which Inductor took {}", readable_time(inductor));
    if (again != 0) text += fmt::format("; {} again, for a failed guard", again);
    if (!breaks.empty())
      text += fmt::format("; graph breaks at {}", readable_count(breaks.size(), "line"));
    field("compiled", text);
  }

  void dry_run() {
    if (!report_.dry_run) return;
    const EmulatedDevice& device = *report_.dry_run;
    field("dry run",
          fmt::format("no GPU was used: PyTorch's own CUDA code ran against an emulated {}{} ({}); "
                      "values, times and the effects of kernels are unknown",
                      device.devices > 1 ? fmt::format("{} × ", device.devices) : "",
                      printable(device.gpu_model), printable(device.arch)));
  }

  // Prints the processes of a job, and the paths that only some of them took.
  void processes() {
    std::vector<std::uint64_t> ranks, ids;
    for (const ReportProcess& process : report_.processes) {
      if (process.rank) ranks.push_back(*process.rank);
      if (process.id) ids.push_back(*process.id);
    }
    if (!ranks.empty())
      field("ranks", process_names(ranks));
    else if (!ids.empty())
      field("processes", process_names(ids));
    constexpr std::size_t kMax = 16;  // Of a job in which every rank differs, the tree has all.
    std::vector<std::string> differences;
    differences.reserve(report_.recording.differences.size());
    for (const std::string& difference : report_.recording.differences)
      differences.push_back(printable(difference));
    list(differences, std::min(kMax, max_entries_), "differences", "", "");
  }

  std::string source() const {
    if (report_.source_version.empty())
      return "no index of PyTorch's source: native frames have no lines "
             "(optrace source add DIR creates one)";
    const std::string version = printable(report_.source_version);
    if (report_.source_of_torch) {
      return fmt::format(
          "line numbers: PyTorch {}, {}{}", version,
          report_.source_from_wheel ? "from the wheel" : "the commit that was traced",
          report_.source_exact ? "" : "; ~ marks approximate ones");
    }
    return fmt::format(
        "line numbers of native frames: PyTorch {}, not the traced version; approximate, marked ~",
        version);
  }

  std::vector<std::string> warnings() const {
    std::vector<std::string> warnings = report_.recording.warnings;
    for (std::string& warning : shortfall_warnings(report_.shortfalls))
      warnings.push_back(std::move(warning));
    for (std::string& warning : warnings) warning = paint(printable(warning), kWarning);
    return warnings;
  }

  // Writes the first entries of a list, and how many others there are.
  void list(const std::vector<std::string>& entries, std::size_t max_entries, std::string_view noun,
            std::string_view first_name, std::string_view other_name) {
    const std::size_t all = entries.size();
    // The last entry takes no more room than the line about it.
    const std::size_t shown = all <= max_entries || all - 1 == max_entries ? all : max_entries;
    for (std::size_t i = 0; i < shown; ++i) field(i == 0 ? first_name : other_name, entries[i]);
    if (shown < all)
      field("", fmt::format("and {} more {}{}", all - shown, noun,
                            max_entries == max_entries_ ? ", see --format text" : ""));
  }

  std::string paint(std::string_view text, std::string_view sgr) const {
    return options_.style.paint(text, sgr);
  }
  void line(std::string_view content) {
    text_ += content;
    text_ += '\n';
  }
  void field(std::string_view name, std::string_view content) {
    line(field_line(name, content, options_.style));
  }

  const Report& report_;
  const ReportTextOptions& options_;
  const std::size_t max_entries_;
  std::string text_;
};

}  // namespace

std::string report_header(const Report& report, const ReportTextOptions& options,
                          std::size_t max_entries) {
  return HeaderWriter(report, options, max_entries).write();
}

}  // namespace optrace

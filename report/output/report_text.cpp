#include "report/output/report_text.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "platform/printable_text.h"
#include "report/model/json_fields.h"
#include "report/model/process_names.h"
#include "report/model/shortfalls.h"
#include "report/model/symbol_name.h"
#include "report/output/failures.h"
#include "report/output/frame_line.h"
#include "report/output/frame_name.h"
#include "report/output/line_layout.h"
#include "report/output/suggested_commands.h"

namespace optrace {
namespace {

constexpr std::string_view kDim = "2";
constexpr std::string_view kBold = "1";
constexpr std::string_view kWarning = "33";

constexpr std::size_t kMaxForkDepth = 20;  // Forks below are not indented further.

std::string plural(std::uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

// Writes a report for people: a header, the tree, failed calls, a summary and suggested commands.
class ReportTextWriter {
 public:
  ReportTextWriter(const Report& report, const ReportTextOptions& options)
      : report_(report), options_(options) {}

  std::string write() {
    header();
    tree();
    failed();
    summary();
    next();
    return std::move(text_);
  }

 private:
  std::string paint(std::string_view text, std::string_view sgr) const {
    return options_.style.paint(text, sgr);
  }
  void line(std::string_view content) {
    text_ += content;
    text_ += '\n';
  }
  void field(std::string_view name, std::string_view content) {
    line(fmt::format("{}{}", paint(padded(name, kLabelColumns), kDim), content));
  }

  void header() {
    const std::string call = text_at(report_.meta, "call");
    const std::string op = text_at(report_.meta, "op");
    line(paint(printable(call.empty() ? op.empty() ? "optrace report" : op : call), kBold));
    std::string torch = printable(text_at(report_.torch, "version"));
    if (torch.empty()) torch = "of unknown version";
    const std::string git = printable(text_at(report_.torch, "git_version"));
    field("torch", fmt::format("{}{} on {}{}", torch,
                               git.empty() ? "" : fmt::format(" (git {})", git.substr(0, 8)),
                               report_.device, python()));
    inputs();
    processes();
    steps();
    dry_run();
    field("source", source());
    for (const std::string& warning : warnings())
      field("warning", paint(printable(warning), kWarning));
    line("");
    line(
        paint("Each frame is called by the one above it; ├─ and └─ are calls of one frame.", kDim));
    line(paint("×N: called N times in total, and so are the frames below it that have no count.",
               kDim));
    line("");
  }

  std::string python() const {
    const std::string version = printable(text_at(report_.meta, "python"));
    return version.empty() ? "" : fmt::format(", Python {}", version);
  }

  void inputs() {
    if (!report_.meta.is_object() || !report_.meta.contains("inputs")) return;
    const nlohmann::json& inputs = report_.meta["inputs"];
    if (!inputs.is_array()) return;
    for (const nlohmann::json& input : inputs) {
      std::string shape;
      if (input.is_object() && input.contains("shape") && input["shape"].is_array()) {
        for (const nlohmann::json& size : input["shape"])
          shape += fmt::format("{}{}", shape.empty() ? "" : "×", printable(size.dump()));
        if (shape.empty()) shape = "scalar";
      }
      std::string dtype = printable(text_at(input, "dtype"));
      if (dtype.starts_with("torch.")) dtype.erase(0, 6);
      field(&input == &inputs.front() ? "input" : "",
            fmt::format("{}{}{} {}", printable(text_at(input, "name")),
                        text_at(input, "name").empty() ? "" : "  ", shape, dtype));
    }
  }

  // Prints the steps of the program that were recorded.
  void steps() {
    const std::uint64_t first = count_at(report_.steps, "first");
    if (first == 0) return;
    const std::uint64_t count = count_at(report_.steps, "count");
    const std::uint64_t last = count == 0 ? 0 : first - 1 + count;
    std::string text = last == 0       ? fmt::format("from {} on", first)
                       : last == first ? fmt::format("{}", first)
                                       : fmt::format("{} to {}", first, last);
    const std::uint64_t end = count_at(report_.steps, "ended_after");
    if (end != 0 && (last == 0 || end < last))
      text += fmt::format("; the program ended after step {}", end);
    field("steps", text);
  }

  void dry_run() {
    if (!report_.dry_run.is_object()) return;
    const std::uint64_t devices = count_at(report_.dry_run, "devices");
    field("dry run",
          fmt::format("no GPU was used: PyTorch's own CUDA code ran against an emulated {}{} ({}); "
                      "values, times and the effects of kernels are unknown",
                      devices > 1 ? fmt::format("{} × ", devices) : "",
                      printable(text_at(report_.dry_run, "gpu_model")),
                      printable(text_at(report_.dry_run, "arch"))));
  }

  // Prints the processes of a job, and the paths that only some of them took.
  void processes() {
    nlohmann::json ranks = nlohmann::json::array();
    nlohmann::json ids = nlohmann::json::array();
    for (const nlohmann::json& process : report_.processes) {
      const auto add = [&](nlohmann::json& all, const char* key) {
        const nlohmann::json name =
            process.is_object() ? process.value(key, nlohmann::json()) : nlohmann::json();
        if (name.is_number()) all.push_back(name);
      };
      add(ranks, "rank");
      add(ids, "id");
    }
    if (!ranks.empty())
      field("ranks", process_names(ranks));
    else if (!ids.empty())
      field("processes", process_names(ids));
    if (!report_.meta.is_object()) return;
    constexpr std::size_t kMax = 16;  // Of a job in which every rank differs, the tree has all.
    std::size_t count = 0;
    for (const nlohmann::json& difference :
         report_.meta.value("differences", nlohmann::json::array()))
      if (difference.is_string() && ++count <= kMax)
        field("", printable(difference.get<std::string>()));
    if (count > kMax) field("", fmt::format("and {} more differences", count - kMax));
  }

  std::string source() const {
    if (report_.source_version.empty())
      return "no index of PyTorch's source: native frames have no lines "
             "(optrace source add DIR creates one)";
    const std::string version = printable(report_.source_version);
    if (report_.source_exact)
      return fmt::format("line numbers: PyTorch {}, the commit that was traced", version);
    return fmt::format(
        "line numbers of native frames: PyTorch {}, not the traced version; approximate, marked ~",
        version);
  }

  std::vector<std::string> warnings() const {
    std::vector<std::string> warnings;
    if (report_.meta.is_object() && report_.meta.contains("warnings") &&
        report_.meta["warnings"].is_array())
      for (const nlohmann::json& warning : report_.meta["warnings"])
        if (warning.is_string()) warnings.push_back(warning.get<std::string>());
    for (std::string& warning : shortfall_warnings(report_.shortfalls))
      warnings.push_back(std::move(warning));
    return warnings;
  }

  // Walks the frames without recursion: a tree may be as deep as the traced program's recursion.
  void tree() {
    std::vector<FrameLine> lines;
    struct Pending {
      const Frame* frame;
      const Frame* parent;
      std::string branch;  // Printed before this frame's name.
      std::string below;   // Printed before the names of its children.
      std::size_t depth;
      std::size_t forks;
      bool dispatched;  // Whether the dispatcher called it.
    };
    std::vector<Pending> pending;
    for (auto root = report_.roots.rbegin(); root != report_.roots.rend(); ++root)
      pending.push_back({&*root, nullptr, "", "", 1, 0, false});
    std::optional<std::uint64_t> thread;
    const bool name_threads =
        report_.roots.size() > 1 &&
        std::any_of(report_.roots.begin(), report_.roots.end(),
                    [&](const Frame& frame) { return frame.thread != report_.roots[0].thread; });
    while (!pending.empty()) {
      const Pending at = std::move(pending.back());
      pending.pop_back();
      const Frame& frame = *at.frame;
      if (name_threads && at.parent == nullptr && thread != frame.thread) {
        FrameLine divider;
        divider.divider = true;
        divider.name = fmt::format("thread {}", frame.thread);
        lines.push_back(std::move(divider));
        thread = frame.thread;
      }
      lines.push_back(frame_line(frame, at.parent, report_, options_.why));
      lines.back().branch = at.branch;
      lines.back().below = at.below;
      count(frame, at.dispatched, at.depth);
      const bool dispatches =
          !text_at(frame.detail, "step").empty() ||
          (at.dispatched && frame.layer == Layer::dispatcher);  // Wrapper templates of kernels.
      const bool fork = frame.children.size() > 1;
      const bool indent = fork && at.forks < kMaxForkDepth;
      for (std::size_t i = frame.children.size(); i-- > 0;) {
        const bool last = i + 1 == frame.children.size();
        Pending child{&frame.children[i], &frame,       at.below,  at.below,
                      at.depth + 1,       at.forks + 1, dispatches};
        if (indent) {
          child.branch += last ? "└─ " : "├─ ";
          child.below += last ? "   " : "│  ";
        } else if (!fork) {
          child.forks = at.forks;
        }
        pending.push_back(std::move(child));
      }
    }
    text_ += lay_out(lines, options_.style, options_.width);
    line("");
  }

  void count(const Frame& frame, bool dispatched, std::size_t depth) {
    depth_ = std::max(depth_, depth);
    const std::string step = text_at(frame.detail, "step");
    if (step == "call") ops_ += frame.calls;
    if (dispatched && frame.layer == Layer::kernel) kernels_ += frame.calls;
    const bool innermost =
        std::none_of(frame.children.begin(), frame.children.end(),
                     [](const Frame& child) { return child.layer == Layer::library; });
    if (frame.layer == Layer::library && innermost) {
      library_calls_ += frame.calls;
      const std::string library = text_at(frame.detail, "library");
      if (!library.empty()) libraries_.insert(library);
    }
  }

  // Prints the calls that failed, each with the path to it.
  void failed() {
    constexpr std::size_t kMax = 5;
    constexpr std::size_t kMaxAbove = 30;  // Frames. The tree has all of them.
    const std::vector<Failure> found = failures(report_);
    for (std::size_t i = 0; i < found.size() && i < kMax; ++i) {
      const Failure& failure = found[i];
      std::string what = printable(short_name(failure.path.back()->name));
      for (const std::string& more : {failure.error, failure.why})
        if (!more.empty()) what += ": " + printable(more);
      if (failure.calls > 1) what += fmt::format("  ×{}", failure.calls);
      field(failure.refused ? "refused" : "failed", paint(what, kWarning));
      // Start at the innermost Python frame.
      std::size_t first = failure.path.size() - 1;
      while (first > 0 && failure.path[first]->layer != Layer::python) --first;
      first = std::max(first, failure.path.size() - std::min(failure.path.size(), kMaxAbove));
      for (std::size_t at = first; at + 1 < failure.path.size(); ++at)
        field("", paint("under ", kDim) + place_of(failure.path, at));
    }
    if (found.size() > kMax)
      field("", paint(fmt::format("and {} in other places", found.size() - kMax), kDim));
    if (!found.empty()) line("");
  }

  // Describes a frame with the line that makes the next call: `Linear.forward
  // torch/nn/modules/linear.py:125`.
  std::string place_of(const std::vector<const Frame*>& path, std::size_t at) const {
    const Frame& frame = *path[at];
    std::string text = frame_name(frame);
    if (!frame.source || frame.source->file.empty()) return text;
    const std::optional<FrameSource>& next = path[at + 1]->source;
    const std::uint32_t line_number =
        next && next->call_line ? *next->call_line : frame.source->line;
    const bool exact = report_.source_exact || frame.layer == Layer::python;
    text += fmt::format("  {}:{}{}", printable(frame.source->file), exact ? "" : "~", line_number);
    return text;
  }

  void summary() {
    std::string libraries;
    for (const std::string& library : libraries_)
      libraries += fmt::format("{}{}", libraries.empty() ? "" : ", ", printable(library));
    line(fmt::format("{}, {}, {}{}, {} deep{}", plural(ops_, "op dispatched", "ops dispatched"),
                     plural(kernels_, "kernel", "kernels"),
                     plural(library_calls_, "library call", "library calls"),
                     libraries.empty() ? "" : fmt::format(" ({})", libraries), depth_,
                     report_.threads > 1 ? fmt::format(", {} threads", report_.threads) : ""));
  }

  void next() {
    const std::vector<SuggestedCommand> commands = suggested_commands(report_, options_);
    std::size_t width = 0;
    for (const SuggestedCommand& one : commands) width = std::max(width, one.command.size());
    for (const SuggestedCommand& one : commands)
      field(&one == &commands.front() ? "try" : "",
            fmt::format("{}  {}", padded(one.command, width), paint(one.purpose, kDim)));
  }

  const Report& report_;
  const ReportTextOptions& options_;
  std::string text_;
  std::uint64_t ops_ = 0;
  std::uint64_t kernels_ = 0;
  std::uint64_t library_calls_ = 0;
  std::size_t depth_ = 0;
  std::set<std::string> libraries_;
};

}  // namespace

std::string to_text(const Report& report, const ReportTextOptions& options) {
  return ReportTextWriter(report, options).write();
}

}  // namespace optrace

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "indexer/store/source_link.h"
#include "platform/text/printable_text.h"
#include "present/line_text.h"
#include "present/terminal_text.h"
#include "pytorch/symbols/symbol_name.h"
#include "report/formats/formats.h"
#include "report/formats/writers.h"
#include "report/lines/failures.h"
#include "report/lines/frame_line.h"
#include "report/lines/line_layout.h"
#include "report/lines/report_header.h"
#include "report/lines/suggested_commands.h"
#include "report/model/frame_name.h"
#include "report/model/op_call.h"
#include "report/model/user_code.h"
#include "report/tensors/tensor_detail.h"

namespace optrace {
namespace {

constexpr std::size_t kMaxForkDepth = 20;  // Forks below are not indented further.

std::string plural(std::uint64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

// Writes a report for people: a header, the tree, failed calls, a summary and suggested commands.
class ReportTextWriter {
 public:
  ReportTextWriter(const Report& report, const ReportTextOptions& options, OutputSink& sink)
      : report_(report), options_(options), sink_(sink) {}

  void write() {
    sink_.write(report_header(report_, options_));
    legend();
    tree();
    failed();
    summary();
    next();
  }

 private:
  std::string paint(std::string_view text, std::string_view sgr) const {
    return options_.style.paint(text, sgr);
  }
  void line(std::string_view content) {
    sink_.write(content);
    sink_.write("\n");
  }
  void field(std::string_view name, std::string_view content) {
    line(field_line(name, content, options_.style));
  }

  void legend() {
    line(
        paint("Each frame is called by the one above it; ├─ and └─ are calls of one frame.", kDim));
    line(paint("×N: called N times in total, and so are the frames below it that have no count.",
               kDim));
    line("");
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
        report_.roots.size() > 1 && std::ranges::any_of(report_.roots, [&](const Frame& frame) {
          return frame.thread != report_.roots[0].thread;
        });
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
      const Shared<DispatchDetail>& dispatch = frame.detail->dispatch;
      if (options_.tensors && dispatch->tensors)
        for (const std::string& tensor : tensor_lines(*dispatch->tensors))
          lines.back().tensors.push_back(printable(tensor));
      lines.back().branch = at.branch;
      lines.back().below = at.below;
      count(frame, at.dispatched, at.depth);
      const bool dispatches =
          dispatch ||
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
    lay_out(lines, options_.style, options_.width, sink_);
    line("");
  }

  void count(const Frame& frame, bool dispatched, std::size_t depth) {
    depth_ = std::max(depth_, depth);
    if (is_op_call(frame)) ops_ += frame.calls;
    if ((dispatched && frame.layer == Layer::kernel) || is_generated_kernel(frame))
      kernels_ += frame.calls;
    const bool innermost = std::ranges::none_of(
        frame.children, [](const Frame& child) { return child.layer == Layer::library; });
    if (frame.layer == Layer::library && innermost) {
      library_calls_ += frame.calls;
      if (!frame.detail->library.empty()) libraries_.insert(frame.detail->library);
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
    const Shared<FrameSource>& next = path[at + 1]->source;
    const std::optional<std::uint32_t> call = next ? next->call_line : std::nullopt;
    const std::uint32_t line_number = call.value_or(frame.source->line);
    const bool exact = call ? !next->call_approximate : !frame.source->approximate;
    const std::string place = place_text(printable(frame.source->file), line_number, exact);
    return text + "  " +
           options_.style.link(place, {.file = frame.source->file,
                                       .line = line_number,
                                       .url = url_of_line(frame.source->url, line_number)});
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
    sink_.write(suggestion_lines(suggested_commands(report_, options_), options_.style));
  }

  const Report& report_;
  const ReportTextOptions& options_;
  OutputSink& sink_;
  std::uint64_t ops_ = 0;
  std::uint64_t kernels_ = 0;
  std::uint64_t library_calls_ = 0;
  std::size_t depth_ = 0;
  std::set<std::string> libraries_;
};

}  // namespace

void to_text(const Report& report, const FormatOptions& options, OutputSink& sink) {
  ReportTextWriter(report, options.text, sink).write();
}

}  // namespace optrace

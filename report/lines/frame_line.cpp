#include "report/lines/frame_line.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "indexer/store/source_link.h"
#include "platform/text/joined.h"
#include "platform/text/printable_text.h"
#include "present/line_text.h"
#include "present/readable_numbers.h"
#include "pytorch/symbols/symbol_name.h"
#include "report/details/attention_backends.h"
#include "report/details/call_detail.h"
#include "report/details/decisions.h"
#include "report/details/dispatch_detail.h"
#include "report/details/returned_values.h"
#include "report/job/process_names.h"
#include "report/lines/compilation_text.h"
#include "report/model/frame_name.h"
#include "report/model/frame_time.h"

namespace optrace {
namespace {

// Returns the column of a call after a colon, if the parent makes another call in the same line
// and the columns tell the calls apart. Otherwise returns an empty string.
std::string call_column(const FrameSource& source, const Frame* parent) {
  if (parent == nullptr || !source.call_range) return "";
  const bool shares_line = std::ranges::any_of(parent->children, [&](const Frame& other) {
    return other.source && other.source->call_line == source.call_line &&
           other.source->call_range && other.source->call_range != source.call_range;
  });
  return shares_line ? fmt::format(":{}", source.call_range->column) : "";
}

// Names the processes that took the path, if they are not those of the parent: `rank 1 only`.
std::string participants(const Frame& frame, const Frame* parent) {
  const ProcessShare& share = frame.detail->processes;
  if (share.processes.empty()) return {};
  if (parent != nullptr && parent->detail->processes.by_rank == share.by_rank &&
      parent->detail->processes.processes == share.processes)
    return {};
  const std::string_view one = share.by_rank ? "rank" : "process";
  const std::string_view several = share.by_rank ? "ranks" : "processes";
  return fmt::format("{} {} only", share.processes.size() == 1 ? one : several,
                     process_names(share.processes));
}

// Returns `12 µs`, or `1.2 ms (3 to 40 µs)` for several calls. A part of a report has no range for
// frames above the selected ones.
std::string time_taken(const Frame& frame) {
  const std::uint64_t total = total_time(frame);
  if (total == 0 || !frame.time) return {};
  const std::optional<FrameTime::Range> range = frame.time->range;
  if (frame.calls < 2 || !range) return readable_time(total);
  return fmt::format("{} ({} to {})", readable_time(total), readable_time(range->shortest),
                     readable_time(range->longest));
}

void append(std::string& note, const std::string& more) {
  if (more.empty()) return;
  if (!note.empty()) note += ", ";
  note += printable(more);
}

// Returns "model.py:12".
std::string short_place(const std::filesystem::path& file, std::uint64_t line) {
  return fmt::format("{}:{}", file.filename().string(), line);
}

// Returns "model.py:10, 12" for the lines of the program that a generated call comes from.
std::string places_of_origins(const Frame& frame) {
  constexpr std::size_t kMost = 4;
  std::vector<std::pair<std::string, std::uint32_t>> places;
  for (const Origin& origin : frame.detail->origins) {
    std::pair place(origin.file, origin.line);
    if (origin.line != 0 && std::ranges::find(places, place) == places.end())
      places.push_back(std::move(place));
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(places.size(), kMost); ++i) {
    const auto& [file, line] = places[i];
    if (i != 0) text += ", ";
    text += i != 0 && file == places[i - 1].first ? std::to_string(line) : short_place(file, line);
  }
  if (places.size() > kMost) text += fmt::format(" and {} more lines", places.size() - kMost);
  return text;
}

// Returns "aten::add.Tensor, aten::relu" for the ops that were fused into a kernel.
std::string ops_of_origins(const Frame& frame) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> ops;
  for (const Origin& origin : frame.detail->origins)
    if (!origin.op.empty() && std::ranges::find(ops, origin.op) == ops.end())
      ops.push_back(origin.op);
  const std::size_t more = ops.size() - std::min(ops.size(), kMost);
  ops.resize(ops.size() - more);
  std::string text = joined(ops, ", ");
  if (more != 0) text += fmt::format(" and {} more", more);
  return text;
}

// Describes the first of the compilations of a frame that compiles a graph or runs its code: "0/0:
// f (model.py:4), 5 ops, 11.6 s", or "0/0: backward of f (model.py:4)".
std::string compilation_note(const std::vector<Compilation>& compilations, const Frame& frame) {
  const std::vector<std::string>& ids = frame.detail->compilations;
  if (ids.empty()) return {};
  const auto one = std::ranges::find(compilations, ids.front(), &Compilation::id);
  if (one == compilations.end()) return {};
  const bool backward = frame.detail->backward_graph;
  std::string note =
      fmt::format("{}: {}{}", one->id, backward ? "backward of " : "", one->function);
  if (!one->file.empty()) note += fmt::format(" ({})", short_place(one->file, one->line));
  if (frame.layer == Layer::compiler)
    if (const std::string facts = backward ? backward_facts(*one) : compilation_facts(*one);
        !facts.empty())
      note += ", " + facts;
  if (ids.size() > 1) note += fmt::format(", and {} more", ids.size() - 1);
  return note;
}

}  // namespace

std::string frame_note(const Frame& frame, const Frame* parent, const Report& report) {
  const Detail& detail = frame.detail.get();
  std::string note;
  if (detail.dispatch) note = name_of(detail.dispatch->step);
  append(note, returned_text(detail));
  append(note, detail.python_name);
  append(note, compilation_note(report.compilations, frame));
  if (is_backward(frame)) append(note, "backward");
  if (frame_name(frame).find(detail.cpu_capability) == std::string::npos)
    append(note, detail.cpu_capability);
  append(note, short_name(detail.implementation));
  if (const std::string places = places_of_origins(frame); !places.empty())
    append(note, "for " + places);
  else if (const std::string ops = ops_of_origins(frame); !ops.empty())
    append(note, "for " + ops);
  if (const std::size_t tried = detail.configurations.size(); tried != 0)
    append(note,
           fmt::format("{} configurations tried{}", tried, report.dry_run ? " without times" : ""));
  if (detail.inlined) append(note, "inlined");
  if (detail.tail_call) append(note, "by a tail call");
  if (detail.threads >
      (parent == nullptr ? 1 : std::max<std::uint64_t>(parent->detail->threads, 1)))
    append(note, fmt::format("by {} threads", detail.threads));
  append(note, participants(frame, parent));
  if (detail.reads_device_memory)
    append(note, report.dry_run ? "reads emulated values" : "reads device memory");
  return note;
}

FrameLine frame_line(const Frame& frame, const Frame* parent, const Report& report, bool why) {
  FrameLine line;
  line.layer = frame.layer;
  line.name = frame_name(frame);
  line.note = frame_note(frame, parent, report);
  if (frame.source) {
    const FrameSource& source = *frame.source;
    line.location = printable(place_text(source));
    line.definition = {.file = source.file, .line = source.line, .url = source.url};
    if (source.call_line)
      line.call =
          fmt::format("called at :{}{}", line_text(*source.call_line, !source.call_approximate),
                      call_column(source, parent));
    if (source.call_line && parent != nullptr && parent->source)
      line.call_site = {.file = parent->source->file,
                        .line = *source.call_line,
                        .url = url_of_line(parent->source->url, *source.call_line),
                        .column = source.call_range ? source.call_range->column : 0};
  }
  if (frame.calls != (parent == nullptr ? 1 : parent->calls))
    line.times = fmt::format("×{}", frame.calls);
  if (const std::string took = time_taken(frame); !took.empty())
    line.times += fmt::format("{}{}", line.times.empty() ? "" : "  ", took);
  const Shared<DispatchDetail>& dispatch = frame.detail->dispatch;
  if (why && dispatch) {
    line.why = printable(dispatch_note(*dispatch));
    if (const std::string decided = decision_note(frame, parent); !decided.empty())
      line.why += fmt::format("{}{}", line.why.empty() ? "" : "; ", printable(decided));
  }
  if (why)
    for (const std::string& backend : attention_lines(dispatch->attention_backends))
      line.backends.push_back(printable(backend));
  if (!dispatch) line.why = printable(call_note(*frame.detail));
  return line;
}

}  // namespace optrace

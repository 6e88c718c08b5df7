#include "report/lines/frame_line.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "indexer/store/source_link.h"
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
#include "report/model/json_fields.h"

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
std::string takers(const Frame& frame, const Frame* parent) {
  for (const auto& [key, one, several] :
       {std::array{"ranks", "rank", "ranks"}, {"processes", "process", "processes"}}) {
    if (!frame.detail.is_object() || !frame.detail.contains(key)) continue;
    const nlohmann::json& names = frame.detail[key];
    if (parent != nullptr && parent->detail.is_object() &&
        parent->detail.value(key, nlohmann::json()) == names)
      return {};
    return fmt::format("{} {} only", names.size() == 1 ? one : several, process_names(names));
  }
  return {};
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
  std::vector<std::pair<std::string, std::uint64_t>> places;
  for (const nlohmann::json& origin : list_at(frame.detail, "origins")) {
    std::pair place(text_at(origin, "file"), count_at(origin, "line"));
    if (place.second != 0 && std::ranges::find(places, place) == places.end())
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
  for (const nlohmann::json& origin : list_at(frame.detail, "origins"))
    if (std::string op = text_at(origin, "op");
        !op.empty() && std::ranges::find(ops, op) == ops.end())
      ops.push_back(std::move(op));
  const std::size_t more = ops.size() - std::min(ops.size(), kMost);
  ops.resize(ops.size() - more);
  std::string text = fmt::format("{}", fmt::join(ops, ", "));
  if (more != 0) text += fmt::format(" and {} more", more);
  return text;
}

// Describes the first of the compilations of a frame that compiles a graph or runs its code: "0/0:
// f (model.py:4), 5 ops, 11.6 s", or "0/0: backward of f (model.py:4)".
std::string compilation_note(const nlohmann::json& compilations, const Frame& frame) {
  const nlohmann::json& ids = list_at(frame.detail, "compilations");
  if (!compilations.is_array() || ids.empty() || !ids[0].is_string()) return {};
  const auto id = ids[0].get<std::string>();
  const bool backward = frame.detail.contains("backward_graph");
  for (const nlohmann::json& one : compilations) {
    if (text_at(one, "id") != id) continue;
    std::string note =
        fmt::format("{}: {}{}", id, backward ? "backward of " : "", text_at(one, "function"));
    if (const std::string file = text_at(one, "file"); !file.empty())
      note += fmt::format(" ({})", short_place(file, count_at(one, "line")));
    if (frame.layer == Layer::compiler)
      if (const std::string facts = compilation_facts(backward ? object_at(one, "backward") : one);
          !facts.empty())
        note += ", " + facts;
    if (ids.size() > 1) note += fmt::format(", and {} more", ids.size() - 1);
    return note;
  }
  return {};
}

}  // namespace

std::string frame_note(const Frame& frame, const Frame* parent, const Report& report) {
  std::string note = text_at(frame.detail, "step");
  append(note, returned_text(frame.detail));
  append(note, text_at(frame.detail, "python_name"));
  append(note, compilation_note(report.compilations, frame));
  if (is_backward(frame)) append(note, "backward");
  if (const std::string capability = text_at(frame.detail, "cpu_capability");
      frame_name(frame).find(capability) == std::string::npos)
    append(note, capability);
  append(note, short_name(text_at(frame.detail, "implementation")));
  if (const std::string places = places_of_origins(frame); !places.empty())
    append(note, "for " + places);
  else if (const std::string ops = ops_of_origins(frame); !ops.empty())
    append(note, "for " + ops);
  if (const std::size_t tried = list_at(frame.detail, "configurations").size(); tried != 0)
    append(note, fmt::format("{} configurations tried{}", tried,
                             report.dry_run.is_null() ? "" : " without times"));
  if (frame.detail.is_object() && frame.detail.contains("inlined")) append(note, "inlined");
  if (frame.detail.is_object() && frame.detail.contains("tail_call"))
    append(note, "by a tail call");
  if (const std::uint64_t threads = count_at(frame.detail, "threads");
      threads >
      (parent == nullptr ? 1 : std::max<std::uint64_t>(count_at(parent->detail, "threads"), 1)))
    append(note, fmt::format("by {} threads", threads));
  append(note, takers(frame, parent));
  if (frame.detail.is_object() && frame.detail.contains("reads_device_memory"))
    append(note, report.dry_run.is_null() ? "reads device memory" : "reads emulated values");
  return note;
}

FrameLine frame_line(const Frame& frame, const Frame* parent, const Report& report, bool why) {
  FrameLine line;
  line.layer = frame.layer;
  const std::string step = text_at(frame.detail, "step");
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
  if (why && !step.empty()) {
    line.why = printable(dispatch_note(frame.detail));
    if (const std::string decided = decision_note(frame, parent); !decided.empty())
      line.why += fmt::format("{}{}", line.why.empty() ? "" : "; ", printable(decided));
  }
  if (why)
    for (const std::string& backend : attention_lines(frame.detail))
      line.backends.push_back(printable(backend));
  if (step.empty()) line.why = printable(call_note(frame.detail));
  return line;
}

}  // namespace optrace

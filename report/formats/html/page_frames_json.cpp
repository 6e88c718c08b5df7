#include <array>
#include <charconv>
#include <string_view>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "report/details/call_detail.h"
#include "report/details/dispatch_detail.h"
#include "report/formats/html/page_frames.h"
#include "report/formats/html/page_json.h"
#include "report/job/process_names.h"
#include "report/json/write_detail_json.h"
#include "report/lines/frame_line.h"
#include "report/model/frame_name.h"
#include "report/model/frame_time.h"
#include "report/model/user_code.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

const FrameSource& source_of(const Frame* frame) {
  static const FrameSource kUnknown;
  return frame != nullptr && frame->source ? *frame->source : kUnknown;
}

std::uint32_t call_line(const Frame& frame) {
  return source_of(&frame).call_line.value_or(0);
}

// Returns the link without the line, which the page adds. A report's JSON may have any link; only
// those to GitHub are shown.
std::string link_of(const FrameSource& source) {
  if (!source.url.starts_with("https://github.com/")) return {};
  const std::string line = fmt::format("#L{}", source.line);
  return source.url.ends_with(line) ? source.url.substr(0, source.url.size() - line.size())
                                    : source.url;
}

// Returns what has no column of its own.
Detail rest_of(const Detail& detail) {
  Detail rest = detail;
  rest.processes.processes.clear();
  return rest;
}

// Returns the number of a frame's detail. Mostly it is the same as in the last frame of that name,
// and writing it takes longer than comparing it.
std::uint64_t number_of_detail(const Frame& frame, PageFrames& page) {
  const Detail& detail = *frame.detail;
  auto& [last, number] = page.last_details[frame.name];
  if (last == nullptr || (last != &detail && rest_of(*last) != rest_of(detail))) {
    const Json rest = to_json(rest_of(detail));
    number = page.details.number_of(rest.empty() ? std::string() : page_json(rest));
  }
  last = &detail;
  return number;
}

std::uint64_t number_of_thread(std::uint64_t thread, PageFrames& page) {
  const auto [at, added] = page.thread_numbers.try_emplace(thread, page.threads.size());
  if (added) page.threads.push_back(thread);
  return at->second;
}

/// A row with what is found only once for several columns.
struct Row : PageRow {
  explicit Row(const PageRow& row)
      : PageRow(row),
        source(source_of(row.frame)),
        call_line(source.call_line.value_or(0)),
        bounds(source.approximate.value_or(LineInterval())),
        call_bounds(source.call_approximate.value_or(LineInterval())),
        range(row.frame->time && row.frame->time->range ? *row.frame->time->range
                                                        : FrameTime::Range()),
        plain(!row.frame->detail) {}

  const FrameSource& source;
  std::uint32_t call_line;
  LineInterval bounds;       // 0 if the line is exact or the bounds are unknown.
  LineInterval call_bounds;  // Same, of the line of the call.
  FrameTime::Range range;    // 0 if unknown.
  bool plain;                // The frame has no detail, as most have.
};

struct Column {
  std::string_view name;
  std::uint64_t (*value)(const Row& row, PageFrames& page);
};

// `text` is a string that may be missing.
template <class Text>
std::uint64_t number_of(const Text& text, PageFrames& page) {
  return text ? page.texts.number_of(*text) : 0;
}

// In docs/html-page.md.
constexpr auto kColumns = std::to_array<Column>({
    {"up", [](const Row& row, PageFrames&) -> std::uint64_t { return row.up; }},
    {"layer",
     [](const Row& row, PageFrames&) { return static_cast<std::uint64_t>(row.frame->layer); }},
    {"label",
     [](const Row& row, PageFrames& page) { return page.texts.number_of(frame_name(*row.frame)); }},
    {"note",
     [](const Row& row, PageFrames& page) -> std::uint64_t {
       if (row.plain) return 0;
       return page.texts.number_of(frame_note(*row.frame, row.parent, page.report));
     }},
    {"why",
     [](const Row& row, PageFrames& page) -> std::uint64_t {
       return row.plain ? 0 : page.texts.number_of(call_note(*row.frame->detail));
     }},
    {"choice",
     [](const Row& row, PageFrames& page) -> std::uint64_t {
       const bool is_step = !row.plain && row.frame->layer == Layer::dispatcher;
       return is_step ? page.texts.number_of(dispatch_note(*row.frame->detail->dispatch)) : 0;
     }},
    {"name",
     [](const Row& row, PageFrames& page) { return page.texts.number_of(row.frame->name); }},
    {"symbol", [](const Row& row, PageFrames& page) { return number_of(row.frame->symbol, page); }},
    {"library",
     [](const Row& row, PageFrames& page) { return number_of(row.frame->library, page); }},
    {"op", [](const Row& row, PageFrames& page) { return number_of(row.frame->op, page); }},
    {"file",
     [](const Row& row, PageFrames& page) { return page.texts.number_of(row.source.file); }},
    {"line", [](const Row& row, PageFrames&) -> std::uint64_t { return row.source.line; }},
    {"call_line", [](const Row& row, PageFrames&) -> std::uint64_t { return row.call_line; }},
    {"approximate",
     [](const Row& row, PageFrames&) -> std::uint64_t {
       return (row.source.approximate ? 1U : 0U) | (row.source.call_approximate ? 2U : 0U);
     }},
    {"line_first", [](const Row& row, PageFrames&) -> std::uint64_t { return row.bounds.first; }},
    {"line_last", [](const Row& row, PageFrames&) -> std::uint64_t { return row.bounds.last; }},
    {"call_line_first",
     [](const Row& row, PageFrames&) -> std::uint64_t { return row.call_bounds.first; }},
    {"call_line_last",
     [](const Row& row, PageFrames&) -> std::uint64_t { return row.call_bounds.last; }},
    {"url",
     [](const Row& row, PageFrames& page) { return page.texts.number_of(link_of(row.source)); }},
    {"excerpt",
     [](const Row& row, PageFrames& page) -> std::uint64_t {
       return row.sourced ? page.excerpts.number_of(row.source.file, row.source.line) : 0;
     }},
    {"call_excerpt",
     [](const Row& row, PageFrames& page) -> std::
                                              uint64_t {
                                                if (!row.sourced) return 0;
                                                return page.excerpts.number_of(
                                                    source_of(row.parent).file, row.call_line);
                                              }},
    {"own_code",
     [](const Row& row,
        PageFrames&) -> std::uint64_t { return is_program_code(*row.frame) ? 1 : 0; }},
    {"thread",
     [](const Row& row, PageFrames& page) { return number_of_thread(row.frame->thread, page); }},
    {"ranks",
     [](const Row& row,
        PageFrames& page) -> std::
                              uint64_t {
                                return row.plain ? 0
                                                 : page.texts.number_of(process_names(
                                                       row.frame->detail->processes.processes));
                              }},
    {"calls", [](const Row& row, PageFrames&) { return row.frame->calls; }},
    {"time", [](const Row& row, PageFrames&) { return total_time(*row.frame); }},
    {"own_time", [](const Row& row, PageFrames&) { return own_time(*row.frame); }},
    {"shortest", [](const Row& row, PageFrames&) { return row.range.shortest; }},
    {"longest", [](const Row& row, PageFrames&) { return row.range.longest; }},
    {"detail",
     [](const Row& row, PageFrames& page)
         -> std::uint64_t { return row.plain ? 0 : number_of_detail(*row.frame, page); }},
    {"side", [](const Row& row, PageFrames&) { return static_cast<std::uint64_t>(row.side); }},
    {"calls_b",
     [](const Row& row,
        PageFrames&) -> std::uint64_t { return row.second == nullptr ? 0 : row.second->calls; }},
    {"time_b",
     [](const Row& row, PageFrames&)
         -> std::uint64_t { return row.second == nullptr ? 0 : total_time(*row.second); }},
});

void append(std::string& text, std::uint64_t value) {
  std::array<char, 20> digits{};  // Of 2^64.
  text.append(digits.data(),
              std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
}

/// A column as it is made, row by row.
struct ColumnText {
  std::string values;
  bool any = false;  ///< A value is not 0.
};

void add(ColumnText& column, std::uint64_t value) {
  column.any = column.any || value != 0;
  if (!column.values.empty()) column.values += ',';
  append(column.values, value);
}

}  // namespace

std::vector<PageRow> page_rows(const Report& report) {
  struct Above {
    const Frame* frame;
    std::size_t row;
  };
  std::vector<PageRow> rows;
  walk_frames(report.roots, Above{nullptr, 0}, [&](const Frame& frame, const Above& above) {
    const std::size_t row = rows.size();
    rows.push_back({&frame, above.frame, above.frame == nullptr ? 0 : row - above.row});
    return Above{&frame, row};
  });
  return rows;
}

void need_excerpts(PageFrames& frames) {
  for (const PageRow& row : frames.rows) {
    if (!row.sourced) continue;
    const FrameSource& source = source_of(row.frame);
    frames.excerpts.need(source.file, source.line);
    frames.excerpts.need(source_of(row.parent).file, call_line(*row.frame));
  }
}

void write_frames(PageFrames& frames, CompressedText& out) {
  std::array<ColumnText, kColumns.size()> columns;
  for (const PageRow& page_row : frames.rows) {
    const Row row(page_row);
    for (std::size_t i = 0; i < kColumns.size(); ++i)
      add(columns[i], kColumns[i].value(row, frames));
  }
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    out.write(fmt::format("{}\"{}\":[", i == 0 ? "{" : ",", kColumns[i].name));
    if (columns[i].any) out.write(columns[i].values);
    out.write("]");
    columns[i] = {};
  }
  out.write("}");
}

}  // namespace optrace

#include "report/output/page_frames.h"

#include <array>
#include <charconv>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/model/call_detail.h"
#include "report/model/frame_name.h"
#include "report/model/frame_time.h"
#include "report/model/json_fields.h"
#include "report/model/own_code.h"
#include "report/model/process_names.h"
#include "report/model/walk_frames.h"
#include "report/output/frame_line.h"
#include "report/output/page_json.h"

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

// Returns the link without the line, which the page adds.
std::string link_of(const FrameSource& source) {
  const std::string line = fmt::format("#L{}", source.line);
  return source.url.ends_with(line) ? source.url.substr(0, source.url.size() - line.size())
                                    : source.url;
}

// Returns the processes that took a frame's path; empty if all did.
std::string takers(const Frame& frame) {
  if (!frame.detail.is_object()) return {};
  for (const char* const key : {"ranks", "processes"})
    if (const auto found = frame.detail.find(key); found != frame.detail.end() && found->is_array())
      return process_names(*found);
  return {};
}

bool has_column(std::string_view key) {
  return key == "time" || key == "ranks" || key == "processes";
}

// Returns the JSON text of what has no column of its own.
std::string rest_of(const Json& detail) {
  std::string text;
  if (!detail.is_object()) return text;
  for (const auto& [key, value] : detail.items()) {
    if (has_column(key)) continue;
    text += text.empty() ? '{' : ',';
    text += page_json(key) + ':' + page_json(value);
  }
  return text.empty() ? text : text + '}';
}

std::uint64_t number_of_thread(std::uint64_t thread, PageFrames& page) {
  const auto [at, added] = page.thread_numbers.try_emplace(thread, page.threads.size());
  if (added) page.threads.push_back(thread);
  return at->second;
}

std::uint64_t time_at(const Frame& frame, const char* key) {
  return count_at(object_at(frame.detail, "time"), key);
}

struct Column {
  std::string_view name;
  std::uint64_t (*value)(const PageRow& row, PageFrames& page);
};

// In docs/html-page.md.
constexpr auto kColumns = std::to_array<Column>({
    {"up", [](const PageRow& row, PageFrames&) -> std::uint64_t { return row.up; }},
    {"layer",
     [](const PageRow& row, PageFrames&) { return static_cast<std::uint64_t>(row.frame->layer); }},
    {"label", [](const PageRow& row,
                 PageFrames& page) { return page.texts.number_of(frame_name(*row.frame)); }},
    {"note",
     [](const PageRow& row, PageFrames& page) {
       return page.texts.number_of(frame_note(*row.frame, row.parent, page.report));
     }},
    {"why", [](const PageRow& row,
               PageFrames& page) { return page.texts.number_of(call_note(row.frame->detail)); }},
    {"name",
     [](const PageRow& row, PageFrames& page) { return page.texts.number_of(row.frame->name); }},
    {"symbol",
     [](const PageRow& row, PageFrames& page) {
       return page.texts.number_of(row.frame->symbol.value_or(""));
     }},
    {"library",
     [](const PageRow& row, PageFrames& page) {
       return page.texts.number_of(row.frame->library.value_or(""));
     }},
    {"op", [](const PageRow& row,
              PageFrames& page) { return page.texts.number_of(row.frame->op.value_or("")); }},
    {"file", [](const PageRow& row,
                PageFrames& page) { return page.texts.number_of(source_of(row.frame).file); }},
    {"line",
     [](const PageRow& row, PageFrames&) -> std::uint64_t { return source_of(row.frame).line; }},
    {"call_line",
     [](const PageRow& row, PageFrames&) -> std::uint64_t { return call_line(*row.frame); }},
    {"url", [](const PageRow& row,
               PageFrames& page) { return page.texts.number_of(link_of(source_of(row.frame))); }},
    {"excerpt",
     [](const PageRow& row, PageFrames& page) {
       const FrameSource& source = source_of(row.frame);
       return page.excerpts.number_of(source.file, source.line);
     }},
    {"call_excerpt",
     [](const PageRow& row, PageFrames& page) {
       return page.excerpts.number_of(source_of(row.parent).file, call_line(*row.frame));
     }},
    {"own_code",
     [](const PageRow& row, PageFrames&) -> std::uint64_t {
       return is_program_code(*row.frame) ? 1 : 0;
     }},
    {"thread", [](const PageRow& row,
                  PageFrames& page) { return number_of_thread(row.frame->thread, page); }},
    {"ranks",
     [](const PageRow& row, PageFrames& page) { return page.texts.number_of(takers(*row.frame)); }},
    {"calls", [](const PageRow& row, PageFrames&) { return row.frame->calls; }},
    {"time", [](const PageRow& row, PageFrames&) { return total_time(*row.frame); }},
    {"own_time", [](const PageRow& row, PageFrames&) { return own_time(*row.frame); }},
    {"shortest", [](const PageRow& row, PageFrames&) { return time_at(*row.frame, "shortest"); }},
    {"longest", [](const PageRow& row, PageFrames&) { return time_at(*row.frame, "longest"); }},
    {"detail", [](const PageRow& row,
                  PageFrames& page) { return page.details.number_of(rest_of(row.frame->detail)); }},
    {"side", [](const PageRow& row, PageFrames&) { return static_cast<std::uint64_t>(row.side); }},
    {"calls_b",
     [](const PageRow& row,
        PageFrames&) -> std::uint64_t { return row.second == nullptr ? 0 : row.second->calls; }},
    {"time_b",
     [](const PageRow& row, PageFrames&)
         -> std::uint64_t { return row.second == nullptr ? 0 : total_time(*row.second); }},
});

void append(std::string& text, std::uint64_t value) {
  std::array<char, 20> digits{};  // Of 2^64.
  text.append(digits.data(),
              std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr);
}

void write_column(const Column& column, PageFrames& page, CompressedText& out) {
  std::string text;
  bool any = false;
  for (const PageRow& row : page.rows) {
    const std::uint64_t value = column.value(row, page);
    any = any || value != 0;
    append(text, value);
    text += ',';
  }
  if (!text.empty()) text.pop_back();
  out.write(fmt::format("{}\"{}\":[", &column == kColumns.data() ? "" : ",", column.name));
  if (any) out.write(text);
  out.write("]");
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
    const FrameSource& source = source_of(row.frame);
    frames.excerpts.need(source.file, source.line);
    frames.excerpts.need(source_of(row.parent).file, call_line(*row.frame));
  }
}

void write_frames(PageFrames& frames, CompressedText& out) {
  out.write("{");
  for (const Column& column : kColumns) write_column(column, frames, out);
  out.write("}");
}

}  // namespace optrace

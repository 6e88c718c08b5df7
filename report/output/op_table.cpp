#include "report/output/op_table.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "platform/printable_text.h"
#include "report/model/frame_time.h"
#include "report/model/json_fields.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

struct OpRow {
  std::uint64_t calls = 0, total = 0, own = 0;
  std::uint64_t open = 0;  // Number of calls of the op around the current frame.
};

// A field that would be a formula in a spreadsheet is text there after an apostrophe.
std::string csv_field(std::string_view text) {
  std::string field = printable(text);
  if (field.find_first_of("=+-@") == 0) field.insert(0, 1, '\'');
  if (field.find_first_of(",\"") == std::string::npos) return field;
  std::string quoted = "\"";
  for (const char c : field) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

std::map<std::string, OpRow> rows_of(const Report& report) {
  std::map<std::string, OpRow> rows;
  std::vector<OpRow*> around;  // Of the op calls around the current frame, outermost first.
  walk_frames(report.roots, std::size_t{0}, [&](const Frame& frame, std::size_t calls_around) {
    for (; around.size() > calls_around; around.pop_back()) --around.back()->open;
    const std::string op = frame.op.value_or("");
    if (op.empty() || text_at(frame.detail, "step") != "call") return around.size();
    const std::uint64_t took = total_time(frame);
    OpRow& row = rows[op];
    row.calls += frame.calls;
    row.own += took;
    if (!around.empty()) around.back()->own -= std::min(around.back()->own, took);
    // A call inside one of the same op is part of its time.
    if (row.open++ == 0) row.total += took;
    around.push_back(&row);
    return around.size();
  });
  return rows;
}

}  // namespace

std::string to_csv(const Report& report) {
  const std::map<std::string, OpRow> rows = rows_of(report);
  std::vector<const std::pair<const std::string, OpRow>*> order;
  order.reserve(rows.size());
  for (const auto& row : rows) order.push_back(&row);
  std::ranges::stable_sort(order, std::greater{}, [](const auto* row) { return row->second.own; });
  std::string text = "op,calls,total_ns,own_ns\n";
  for (const auto* const row : order) {
    const auto& [op, usage] = *row;
    text += fmt::format("{},{},{},{}\n", csv_field(op), usage.calls, usage.total, usage.own);
  }
  return text;
}

}  // namespace optrace

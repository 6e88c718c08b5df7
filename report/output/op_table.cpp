#include "report/output/op_table.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "platform/printable_text.h"
#include "report/model/json_fields.h"

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

// Walks without recursion: a tree may be as deep as the traced program's recursion.
std::map<std::string, OpRow> rows_of(const Report& report) {
  std::map<std::string, OpRow> rows;
  struct Pending {
    const Frame* frame;
    OpRow* around;  // Of the innermost op call around it.
    OpRow* ending;  // Set when the frame's children are done.
  };
  std::vector<Pending> pending;
  for (const Frame& root : report.roots) pending.push_back({&root, nullptr, nullptr});
  while (!pending.empty()) {
    const auto [frame, around, ending] = pending.back();
    pending.pop_back();
    if (ending != nullptr) {
      --ending->open;
      continue;
    }
    OpRow* inside = around;
    if (frame->op && text_at(frame->detail, "step") == "call") {
      const std::uint64_t took = count_at(object_at(frame->detail, "time"), "total");
      inside = &rows[*frame->op];
      inside->calls += frame->calls;
      inside->own += took;
      if (around != nullptr) around->own -= std::min(around->own, took);
      // A call inside one of the same op is part of its time.
      if (inside->open++ == 0) inside->total += took;
      pending.push_back({frame, nullptr, inside});
    }
    for (const Frame& child : frame->children) pending.push_back({&child, inside, nullptr});
  }
  return rows;
}

}  // namespace

std::string to_csv(const Report& report) {
  const std::map<std::string, OpRow> rows = rows_of(report);
  std::vector<const std::pair<const std::string, OpRow>*> order;
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

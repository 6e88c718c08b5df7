#include "report/output/op_table.h"

#include <string_view>

#include <fmt/format.h>

#include "platform/printable_text.h"
#include "report/summary/op_usage.h"

namespace optrace {
namespace {

// A field that would be a formula in a spreadsheet is text there after an apostrophe.
std::string csv_field(std::string_view text) {
  std::string field = printable(text);
  if (field.find_first_of("=+-@") == 0) field.insert(0, 1, '\'');
  if (field.find_first_of(",\"") == std::string::npos) return field;
  std::string quoted = "\"";
  for (const char c : field) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

}  // namespace

std::string to_csv(const Report& report) {
  std::string text = "op,calls,total_ns,own_ns\n";
  for (const OpUsage& usage : op_usage(report))
    text += fmt::format("{},{},{},{}\n", csv_field(usage.op), usage.calls, usage.total, usage.own);
  return text;
}

}  // namespace optrace

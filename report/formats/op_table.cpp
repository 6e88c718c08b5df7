#include <string>
#include <string_view>

#include "platform/text/printable_text.h"
#include "report/formats/writers.h"
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

void to_csv(const Report& report, const FormatOptions&, OutputSink& sink) {
  sink.write("op,calls,total_ns,own_ns\n");
  for (const OpUsage& usage : op_usage(report))
    sink.print("{},{},{},{}\n", csv_field(usage.op), usage.calls, usage.total, usage.own);
}

}  // namespace optrace

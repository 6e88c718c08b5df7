// Reports in JSON.
#include "report/model/report_reader.h"
#include "tests/fuzz/fuzz_input.h"

using namespace optrace;

OPTRACE_READER(report) {
  try {
    fuzz::use(parse_report(fuzz::Input(data, size).rest()));
  } catch (const ReportError& error) {
    if (std::string_view(error.what()).empty()) __builtin_trap();
  }
  return 0;
}

// /proc/PID/maps and /proc/PID/status.
#include "platform/process/running_process.h"
#include "tests/fuzz/fuzz_input.h"

using namespace optrace;

OPTRACE_READER(process_text) {
  const std::string_view text = fuzz::Input(data, size).rest();
  for (const MappedPart& part : parse_process_maps(text)) {
    if (part.start >= part.end || !part.path.starts_with('/')) __builtin_trap();
  }
  fuzz::use_text(shown(parse_process_status(text).name));
  fuzz::use_text(shown(text));
  return 0;
}

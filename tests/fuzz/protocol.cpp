// Messages of a traced process: one JSON object per line.
#include "tests/fuzz/fuzz_input.h"
#include "tracer/connection/target_messages.h"

using namespace optrace;

OPTRACE_READER(protocol) {
  fuzz::Input input(data, size);
  TargetMessages messages;
  fuzz::refuses_or_reads([&] {
    while (!input.empty()) {
      messages.append(input.take(1 + input.take<std::uint8_t>()));
      while (messages.ready())
        fuzz::use_text(
            messages.take().dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
    }
  });
  return 0;
}

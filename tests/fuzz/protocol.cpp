// Messages of a traced process: one JSON object per line.
#include "tests/fuzz/fuzz_input.h"
#include "tracer/connection/message_contents.h"
#include "tracer/connection/process_message.h"
#include "tracer/connection/target_messages.h"
#include "tracer/launch/op_messages.h"

using namespace optrace;

namespace {

// Reads a message as each kind, whatever it says that it is.
void use(const TargetMessage& message) {
  fuzz::use_text(problem_in(message).what());
  const ProcessMessage process = process_in(message);
  for (const std::string& argument : process.arguments) fuzz::use_text(argument);
  for (const auto& library : python_in(message).modules) fuzz::use_text(library.string());
  for (const auto& library : ready_in(message).modules) fuzz::use_text(library.string());
  TraceMeta meta;
  add_warnings(meta, message);
  for (const std::string& warning : meta.warnings) fuzz::use_text(warning);
  fuzz::refuses_or_reads([&] { fuzz::use_text(torch_in(message).python); });
}

}  // namespace

OPTRACE_READER(protocol) {
  fuzz::Input input(data, size);
  TargetMessages messages;
  fuzz::refuses_or_reads([&] {
    while (!input.empty()) {
      messages.append(input.take(1 + input.take<std::uint8_t>()));
      while (messages.ready()) use(messages.take());
    }
  });
  return 0;
}

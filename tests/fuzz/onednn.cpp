// oneDNN's verbose lines. Their parser is included as source: it is part of a library that is built
// on the user's machine for the installed torch.
#include <nlohmann/json.hpp>

#include "target/op_recorder/libraries/onednn_calls.cpp"  // NOLINT(bugprone-suspicious-include)
#include "tests/fuzz/fuzz_input.h"

namespace optrace_ops {

void record_library_call(const Fingerprint& /*fingerprint*/, std::uint64_t /*stack_pointer*/,
                         const std::function<void(JsonText&)>& write) {
  JsonText json;
  json.open('{');
  write(json);
  json.close('}');
  if (!nlohmann::json::accept(json.text())) __builtin_trap();
}

}  // namespace optrace_ops

OPTRACE_READER(onednn) {
  std::string text = "onednn_verbose,";
  text += optrace::fuzz::Input(data, size).rest();
  const optrace_ops::Line line(text);
  if (line.exec != 0) optrace_ops::note(line, text, 0);
  optrace::fuzz::use(optrace_ops::is_taken(line, text));
  optrace::fuzz::use(optrace_ops::take_header());
  return 0;
}

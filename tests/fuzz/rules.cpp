// Rules of `optrace check`: a file of rules, and a single rule.
#include "report/check/check_rules.h"
#include "tests/fuzz/fuzz_input.h"

using namespace optrace;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::Input(data, size).rest());
  fuzz::refuses_or_reads([&] { fuzz::use(parse_rules(text)); });
  fuzz::refuses_or_reads([&] { fuzz::use(parse_rule(text)); });
  return 0;
}

// Rules of `optrace check`: a file of rules, and a single rule.
#include "report/check/check_rules.h"
#include "tests/fuzz/fuzz_input.h"

using namespace optrace;

OPTRACE_READER(rules) {
  const std::string text(fuzz::Input(data, size).rest());
  fuzz::refuses_or_reads([&] { fuzz::use(parse_rules(text)); });
  fuzz::refuses_or_reads([&] { fuzz::use(parse_rule(text)); });
  return 0;
}

// Mangled and demangled names.
#include "pytorch/symbols/symbol_key.h"
#include "pytorch/symbols/symbol_name.h"
#include "tests/fuzz/fuzz_input.h"

using namespace optrace;

OPTRACE_READER(symbol) {
  const std::string_view name = fuzz::Input(data, size).rest();
  fuzz::use_text(qualified_name(name));
  fuzz::use_text(parameters_of(name));
  fuzz::use_text(qualified_name_of_demangled(name));
  fuzz::use_text(short_name(name));
  for (const std::size_t width : {0U, 1U, 2U, 7U, 40U})
    if (shorten_middle(name, width).size() > 4 * name.size() + 8) __builtin_trap();
  return 0;
}

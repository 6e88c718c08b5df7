#include "pytorch/functions/generated_names.h"

#include "pytorch/symbols/symbol_name.h"

namespace optrace {

bool is_wrapper(std::string_view name) {
  return unqualified_name(name).starts_with(kWrapperStart);
}

bool is_wrapper_symbol(std::string_view symbol) {
  return nested_name(symbol).starts_with("2at12_GLOBAL__N_1") &&
         symbol.find(kWrapperStart) != std::string_view::npos;
}

}  // namespace optrace

#include "pytorch/functions/generated_names.h"

#include <cstddef>

#include "pytorch/symbols/symbol_name.h"

namespace optrace {

bool is_wrapper(std::string_view name) {
  return unqualified_name(name).starts_with(kWrapperStart);
}

bool is_wrapper_symbol(std::string_view symbol) {
  return nested_name(symbol).starts_with("2at12_GLOBAL__N_1") &&
         symbol.find(kWrapperStart) != std::string_view::npos;
}

std::string_view bound_name(std::string_view function) {
  const std::size_t at = function.rfind(kBindingStart);
  return at == std::string_view::npos ? std::string_view()
                                      : function.substr(at + kBindingStart.size());
}

}  // namespace optrace

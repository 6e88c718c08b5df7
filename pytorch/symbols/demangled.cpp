#include "pytorch/symbols/demangled.h"

#include <cstdlib>
#include <memory>

#include <cxxabi.h>

namespace optrace {

std::string demangled(const std::string& symbol) {
  struct Free {
    void operator()(char* text) const { std::free(text); }
  };
  int status = 0;
  const std::unique_ptr<char, Free> made(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status));
  return made ? made.get() : std::string();
}

}  // namespace optrace

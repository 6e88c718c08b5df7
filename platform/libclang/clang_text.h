#pragma once

#include <string>

#include <clang-c/Index.h>

namespace optrace {

/// Returns a text of libclang and frees it; empty for a null text.
inline std::string take(CXString text) {
  const char* const characters = clang_getCString(text);
  std::string copy = characters == nullptr ? "" : characters;
  clang_disposeString(text);
  return copy;
}

}  // namespace optrace

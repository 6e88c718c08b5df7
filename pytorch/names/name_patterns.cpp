#include "pytorch/names/name_patterns.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "platform/text/glob.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

/// Returns `at::native::f` for `at::native::f<int>`.
std::string without_templates(std::string_view name) {
  std::string kept;
  std::size_t depth = 0;
  for (const char c : name) {
    if (c == '<') ++depth;
    if (depth == 0) kept += c;
    if (c == '>' && depth > 0) --depth;
  }
  return kept;
}

}  // namespace

bool names_function(std::string_view pattern, std::string_view qualified_name) {
  if (matches_glob(qualified_name, pattern)) return true;
  if (qualified_name.find('<') != std::string_view::npos &&
      matches_glob(without_templates(qualified_name), pattern))
    return true;
  return qualified_name.find("::") != std::string_view::npos &&
         matches_glob(short_name(qualified_name), pattern);
}

bool names_op(std::string_view pattern, std::string_view op) {
  // Python calls the overload without a name `default`.
  const std::size_t dot = op.find('.');
  const std::string_view whole = op.substr(0, dot);
  const std::string full =
      dot == std::string_view::npos ? std::string(op) + ".default" : std::string(op);
  const std::size_t scope = whole.find("::");
  const std::size_t base = scope == std::string_view::npos ? 0 : scope + 2;
  return std::ranges::any_of(
      std::array{op, whole, std::string_view(full)}, [&](std::string_view name) {
        return matches_glob(name, pattern) || matches_glob(name.substr(base), pattern);
      });
}

}  // namespace optrace

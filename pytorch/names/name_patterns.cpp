#include "pytorch/names/name_patterns.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "platform/text/glob.h"
#include "pytorch/source/cpu_capability.h"
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

/// Returns `at::native::f` for `at::native::AVX2::f`, whose namespace is inline.
std::string without_capabilities(std::string_view name) {
  std::string kept;
  for (std::size_t end = name.find("::"); end != std::string_view::npos; end = name.find("::")) {
    const std::string_view part = name.substr(0, end);
    if (part != kBaselineCapability && !is_cpu_capability(part)) kept += name.substr(0, end + 2);
    name.remove_prefix(end + 2);
  }
  return kept.append(name);
}

}  // namespace

bool names_function(std::string_view pattern, std::string_view qualified_name) {
  if (matches_glob(qualified_name, pattern)) return true;
  if (qualified_name.find('<') != std::string_view::npos &&
      matches_glob(without_templates(qualified_name), pattern))
    return true;
  if (qualified_name.find("::") == std::string_view::npos) return false;
  const std::string plain = without_capabilities(without_templates(qualified_name));
  return matches_glob(short_name(qualified_name), pattern) || matches_glob(plain, pattern) ||
         matches_glob(short_name(plain), pattern);
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

#include "pytorch/functions/dispatcher_steps.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <string>
#include <system_error>

#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

constexpr std::string_view kBoxedCall = "_ZNK3c1010Dispatcher9callBoxedE";
// Dispatcher::redispatchBoxed is inlined into it.
constexpr std::string_view kBoxedRedispatchSymbol = "_ZNK3c1014OperatorHandle15redispatchBoxedE";

// Functions of Dispatcher.h and KernelFunction_impl.h.
constexpr auto kForwardOps = std::to_array<std::string_view>(
    {"_ZN3c1010Dispatcher27callWithDispatchKeySlowPath", "_ZNK3c1010Dispatcher4callI",
     "_ZNK3c1010Dispatcher10redispatchI", "_ZN3c106detail17CaptureKernelCallI",
     "_ZNK3c1019TypedOperatorHandleI", "_ZNK3c1014OperatorHandle9callBoxedE",
     "_ZN3c1025callUnboxedKernelFunctionI"});

// Returns true for a method, which is only a part of a kernel: MathOpFallback::fallback_impl.
// Unlike namespaces, classes have capitals.
bool is_method(std::string_view symbol) {
  const std::string name = qualified_name(symbol);
  const std::size_t last = name.rfind("::");
  if (last == std::string::npos || last == 0) return false;
  const std::size_t scope = name.rfind("::", last - 1);
  const char first = name[scope == std::string::npos ? 0 : scope + 2];
  return first >= 'A' && first <= 'Z';
}

constexpr std::string_view kOps = "_ZN2at4_ops";
constexpr std::string_view kCall = "4callE";
constexpr std::string_view kRedispatch = "10redispatchE";

}  // namespace

std::optional<DispatcherStep> dispatcher_step(std::string_view name) {
  if (name == "c10::Dispatcher::callBoxed" || name == kUnboxedCall)
    return DispatcherStep{{}, false};
  if (name == kBoxedRedispatch) return DispatcherStep{{}, true};
  constexpr std::string_view kScope = "at::_ops::";
  if (!name.starts_with(kScope)) return std::nullopt;
  name.remove_prefix(kScope.size());
  const std::size_t end = name.find("::");
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view step = name.substr(end + 2);
  if (step != "call" && step != "redispatch") return std::nullopt;
  return DispatcherStep{name.substr(0, end), step == "redispatch"};
}

std::optional<DispatcherStep> dispatcher_step_of_symbol(std::string_view symbol) {
  if (symbol.starts_with(kBoxedCall)) return DispatcherStep{{}, false};
  if (symbol.starts_with(kBoxedRedispatchSymbol)) return DispatcherStep{{}, true};
  if (!is_in_ops_namespace(symbol)) return std::nullopt;
  symbol.remove_prefix(kOps.size());
  std::size_t length = 0;
  const auto [digits, error] =
      std::from_chars(symbol.data(), symbol.data() + symbol.size(), length);
  if (error != std::errc()) return std::nullopt;
  symbol.remove_prefix(static_cast<std::size_t>(digits - symbol.data()));
  if (length == 0 || length > symbol.size()) return std::nullopt;
  const std::string_view step = symbol.substr(length);
  const bool redispatch = step.starts_with(kRedispatch);
  if (!redispatch && !step.starts_with(kCall)) return std::nullopt;
  return DispatcherStep{symbol.substr(0, length), redispatch};
}

std::string_view dispatched_op(std::string_view symbol) {
  const auto step = dispatcher_step_of_symbol(symbol);
  return step ? step->op : std::string_view();
}

std::string step_symbol_part(std::string_view unambiguous_name) {
  std::string part(kOps.substr(std::string_view("_ZN").size()));
  part += std::to_string(unambiguous_name.size());
  part += unambiguous_name;
  return part;
}

bool is_in_ops_namespace(std::string_view symbol) {
  return symbol.starts_with(kOps);
}

bool takes_dispatch_keys(std::string_view symbol) {
  return symbol.starts_with(kBoxedRedispatchSymbol) ||
         (is_in_ops_namespace(symbol) &&
          symbol.find("10redispatchEN3c1014DispatchKeySetE") != std::string_view::npos);
}

bool forwards_op(std::string_view symbol) {
  return std::ranges::any_of(kForwardOps,
                             [&](std::string_view start) { return symbol.starts_with(start); });
}

bool is_boxed_kernel(std::string_view symbol) {
  constexpr auto kTypes =
      std::to_array<std::string_view>({"14OperatorHandleE", "14DispatchKeySetE", "6IValueE"});
  const bool takes_stack = std::ranges::all_of(
      kTypes, [&](std::string_view type) { return symbol.find(type) != std::string_view::npos; });
  return takes_stack && (symbol.starts_with("_ZN3c10") || !is_method(symbol));
}

bool is_same_boxed_kernel(std::string_view caller, std::string_view called) {
  const std::string qualified = qualified_name(called);
  const std::string_view name = unqualified_name(qualified);
  return caller.find(std::to_string(name.size()) + std::string(name) + 'E') !=
         std::string_view::npos;
}

}  // namespace optrace

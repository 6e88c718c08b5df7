#include "tracer/collect/live_functions.h"

#include <algorithm>

namespace optrace {

bool LiveFunctions::enters_itself(std::uint32_t function) const {
  return jumps(function).enters_itself;
}

bool LiveFunctions::is_agent(std::uint32_t function) const {
  const std::uint32_t module = trace_.functions[function].module;
  return module != kNone && is_own_library(trace_.modules[module].path);
}

bool LiveFunctions::begins_threads(std::uint32_t function) const {
  const std::uint32_t module = trace_.functions[function].module;
  return optrace::begins_threads(
      table_.located(function).function.symbol,
      module == kNone ? std::string_view() : std::string_view(trace_.modules[module].path));
}

bool LiveFunctions::can_jump(std::uint32_t from, std::uint32_t to) const {
  return jumps(from).jumps_indirectly || jumps_directly(from, to);
}

bool LiveFunctions::calls_by_name(const Event& entry, std::uint32_t called) const {
  return entry.caller != kNone &&
         optrace::calls_by_name(table_.located(entry.caller), entry.return_address,
                                table_.located(called), called, names(called));
}

std::string_view LiveFunctions::python_name(std::uint32_t function) const {
  return texts_.python_functions[function].name;
}

const FunctionJumps& LiveFunctions::jumps(std::uint32_t function) const {
  const auto [known, is_new] = jumps_.try_emplace(function);
  if (is_new) known->second = table_.find_jumps(function);
  return known->second;
}

bool LiveFunctions::jumps_directly(std::uint32_t from, std::uint32_t to) const {
  const FunctionJumps& found = jumps(from);
  const LocatedFunction& target = table_.located(to);
  if (table_.located(from).symbols == target.symbols &&
      std::ranges::count(found.tail_calls, target.function.address) != 0)
    return true;
  return std::ranges::any_of(found.named_tail_calls, [&](std::string_view name) {
    if (name == target.function.symbol) return true;
    const NamedFunctions& known = names(to);
    const auto named = known.find(name);
    return named != known.end() && std::ranges::count(named->second, to) != 0;
  });
}

// Searches all symbols, and repeats that only once the table has grown considerably.
const NamedFunctions& LiveFunctions::names(std::uint32_t function) const {
  if (function >= named_ || table_.size() > named_ + named_ / 4 + 64) {
    named_ = table_.size();
    names_ = names_of(table_);
  }
  return names_;
}

}  // namespace optrace

#include "tracer/collect/tail_calls.h"

#include <map>
#include <optional>
#include <set>

namespace optrace {
namespace {

using ByAddress = std::map<const ModuleSymbols*, std::map<std::uint64_t, std::uint32_t>>;

ByAddress by_address_of(const FunctionTable& functions) {
  ByAddress by_address;
  for (std::uint32_t i = 0; i < functions.size(); ++i) {
    const LocatedFunction& located = functions.located(i);
    if (located.symbols != nullptr)
      by_address[located.symbols].emplace(located.function.address, i);
  }
  return by_address;
}

NamedFunctions names_of(const ByAddress& by_address) {
  NamedFunctions by_name;
  for (const auto& [symbols, functions] : by_address) {
    std::vector<std::uint64_t> addresses;
    for (const auto& [address, function] : functions) addresses.push_back(address);
    symbols->for_each_name_at(addresses, [&](std::uint64_t address, std::string_view name) {
      // NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): a captured binding is initialised.
      by_name[name].push_back(functions.at(address));
    });
  }
  return by_name;
}

bool may_call(const Event& event, std::uint32_t function, const FunctionTable& functions,
              const NamedFunctions& named) {
  return event.caller != kNone &&
         calls_by_name(functions.located(event.caller), event.return_address,
                       functions.located(function), function, named);
}

// Adds to `passed_on` the jumps between functions that the events prove. A call that names a probed
// function enters that function first, so any other function that is entered with the same return
// address was reached by a jump. Disassembly misses jumps through functions without a probe: many
// functions of CPython jump to _Py_Dealloc, which jumps to the type's destructor.
void add_unseen_jumps(const ThreadRecord& thread, const FunctionTable& functions,
                      const NamedFunctions& named,
                      std::vector<std::set<std::uint32_t>>& passed_on) {
  // Functions that one call entered through jumps: one slot, one return address.
  struct Entered {
    std::uint64_t stack_pointer;
    std::uint64_t return_address;
    std::uint32_t called;  ///< The first function.
    std::uint32_t last;
    /// True if the call names `called`. Determined when needed.
    std::optional<bool> called_directly;
  };
  std::vector<Entered> live;  // Outermost first.
  for (const Event& event : thread.events) {
    if (event.kind != EventKind::function_entry) continue;
    while (!live.empty() && live.back().stack_pointer < event.stack_pointer) live.pop_back();
    if (!live.empty() && live.back().stack_pointer == event.stack_pointer) {
      Entered& same = live.back();
      if (same.return_address == event.return_address && same.called != event.what) {
        if (!same.called_directly)
          same.called_directly = may_call(event, same.called, functions, named);
        if (*same.called_directly) {
          if (same.last != event.what) passed_on[same.last].insert(event.what);
          same.last = event.what;
          continue;
        }
      }
      live.pop_back();
    }
    live.push_back({event.stack_pointer, event.return_address, event.what, event.what, {}});
  }
}

}  // namespace

NamedFunctions names_of(const FunctionTable& functions) {
  return names_of(by_address_of(functions));
}

void add_jumps(Trace& trace, const FunctionTable& functions) {
  ByAddress by_address = by_address_of(functions);
  const NamedFunctions by_name = names_of(by_address);
  std::vector<std::set<std::uint32_t>> passed_on(functions.size());
  for (const ThreadRecord& thread : trace.threads)
    add_unseen_jumps(thread, functions, by_name, passed_on);
  for (std::uint32_t i = 0; i < functions.size(); ++i) {
    const LocatedFunction& located = functions.located(i);
    if (located.symbols == nullptr) continue;
    const FunctionJumps jumps = functions.find_jumps(i);
    TraceFunction& function = trace.functions[i];
    function.enters_itself = jumps.enters_itself;
    function.jumps_indirectly = jumps.jumps_indirectly;
    std::set<std::uint32_t> targets = std::move(passed_on[i]);
    const auto& neighbours = by_address[located.symbols];
    for (const std::uint64_t address : jumps.tail_calls) {
      const auto target = neighbours.find(address);
      if (target != neighbours.end()) targets.insert(target->second);
    }
    for (const std::string_view name : jumps.named_tail_calls) {
      const auto target = by_name.find(name);
      if (target != by_name.end()) targets.insert(target->second.begin(), target->second.end());
    }
    function.tail_calls.assign(targets.begin(), targets.end());
  }
}

}  // namespace optrace

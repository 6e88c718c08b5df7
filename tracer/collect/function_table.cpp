#include "tracer/collect/function_table.h"

#include <algorithm>
#include <climits>
#include <iterator>
#include <optional>
#include <set>

#include "platform/elf/debug_file.h"

namespace optrace {

FunctionTable::FunctionTable(const ModuleList& modules, ModuleStore& store, Trace& trace)
    : modules_(modules), store_(store), trace_(trace), process_(modules, store) {}

void FunctionTable::add_probes(const PlacedProbes& range, const ProbePlan& plan, bool late) {
  Range made{range.first_id, &plan, nullptr, nullptr, {}};
  made.functions.assign(plan.probes().size(), kNone);
  for (const LoadedModule& module : modules_) {
    const bool same = plan.build_id().empty() ? module.path == plan.module_path()
                                              : module.build_id == plan.build_id();
    if (same) made.module = &module;
  }
  if (made.module != nullptr) made.symbols = store_.find(*made.module);
  if (!late) {
    auto& planned = planned_[made.module];
    for (const plan::Probe& probe : plan.probes())
      if (!plan::is_return(probe.kind)) planned.push_back(probe.address);
    std::ranges::sort(planned);
  }
  ranges_.insert(std::ranges::upper_bound(ranges_, made.first_id, {}, &Range::first_id),
                 std::move(made));
}

bool FunctionTable::has_probe(std::uint32_t id) const {
  const auto after = std::ranges::upper_bound(ranges_, id, {}, &Range::first_id);
  return after != ranges_.begin() &&
         id - std::prev(after)->first_id < std::prev(after)->functions.size();
}

std::uint32_t FunctionTable::function_of_probe(std::uint32_t id) {
  const auto after = std::ranges::upper_bound(ranges_, id, {}, &Range::first_id);
  Range& range = *std::prev(after);
  std::uint32_t& function = range.functions[id - range.first_id];
  if (function == kNone) {
    const std::uint64_t address = range.plan->probes()[id - range.first_id].address;
    NativeFunction named{address, 0, {}, false, false};
    if (range.symbols != nullptr) named = range.symbols->find_piece(address).value_or(named);
    function = intern(range.module, range.symbols, named);
  }
  return function;
}

FunctionTable::Caller FunctionTable::find_caller(std::uint64_t return_address) {
  const auto [known, is_new] = callers_.try_emplace(return_address);
  if (is_new) {
    known->second.return_address = as_linked(return_address);
    const LocatedFunction* found = process_.caller(return_address);
    if (found != nullptr)
      known->second.function = intern(found->module, found->symbols, found->function);
  }
  return known->second;
}

bool FunctionTable::read_returned(const recording::Event& raw, Event& event) const {
  if (!has_probe(raw.line)) return false;
  const Range& range =
      *std::prev(std::ranges::upper_bound(ranges_, raw.line, {}, &Range::first_id));
  const plan::Probe& probe = range.plan->probes()[raw.line - range.first_id];
  if (!plan::is_return(probe.kind)) return false;
  const std::uint64_t unused =
      CHAR_BIT * (sizeof(std::uint64_t) - plan::bytes_returned(probe.kind));
  std::uint64_t value = raw.return_address << unused >> unused;
  // Addresses differ in each process.
  if (probe.kind == plan::ProbeKind::returned_pointer) value = value != 0 ? 1 : 0;
  event.kind = EventKind::returned;
  event.what = static_cast<std::uint32_t>(value);
  event.line = static_cast<std::uint32_t>(value >> 32);
  event.stack_pointer = raw.stack_pointer;
  event.return_address = probe.address;
  return true;
}

bool FunctionTable::read_caller(const recording::Event& raw, Event& event) {
  event.kind = EventKind::caller;
  event.what = caller(recording::address_in_caller(raw.id, raw.line));
  event.stack_pointer = raw.stack_pointer;
  const Caller outside = raw.return_address == 0 ? Caller{} : find_caller(raw.return_address);
  event.caller = outside.function;
  event.return_address = outside.return_address;
  return event.what != kNone;
}

std::uint64_t FunctionTable::as_linked(std::uint64_t address) const {
  const LoadedModule* module = address == 0 ? nullptr : modules_.at(address - 1);
  return module == nullptr ? address : address - module->bias;
}

bool FunctionTable::is_planned(const LoadedModule* module, std::uint64_t address) const {
  const auto planned = planned_.find(module);
  return planned != planned_.end() && std::ranges::binary_search(planned->second, address);
}

namespace {

// Maximum number of successive jumps through functions without a probe.
constexpr int kMaxJumps = 4;

}  // namespace

FunctionJumps FunctionTable::find_jumps(std::uint32_t function) const {
  const LocatedFunction& located = located_[function];
  if (located.symbols == nullptr) return {};
  const ModuleSymbols& module = *located.symbols;
  FunctionJumps all = optrace::find_jumps(module, located.function);
  std::set<std::uint64_t> seen = {located.function.address};
  std::size_t direct = 0, named = 0;  // Entries of `all` already followed.
  for (int jumps = 0; jumps < kMaxJumps; ++jumps) {
    std::vector<std::uint64_t> entries;
    for (; direct < all.tail_calls.size(); ++direct) entries.push_back(all.tail_calls[direct]);
    for (; named < all.named_tail_calls.size(); ++named)
      if (const auto address = module.definition(all.named_tail_calls[named]))
        entries.push_back(*address);
    if (entries.empty()) break;
    for (const std::uint64_t entry : entries) {
      if (is_planned(located.module, entry) || !seen.insert(entry).second) continue;
      const auto passing = module.find_piece(entry);
      if (!passing || passing->address != entry) continue;
      const FunctionJumps next = optrace::find_jumps(module, *passing);
      std::ranges::copy(next.tail_calls, std::back_inserter(all.tail_calls));
      std::ranges::copy(next.named_tail_calls, std::back_inserter(all.named_tail_calls));
    }
  }
  return all;
}

std::uint32_t FunctionTable::intern_module(const LoadedModule* module) {
  const auto [known, is_new] =
      module_index_.try_emplace(module, static_cast<std::uint32_t>(trace_.modules.size()));
  if (is_new) {
    const ModuleSymbols* const symbols = store_.find(*module);
    trace_.modules.push_back({.path = module->path,
                              .build_id = module->build_id,
                              .debug_info = symbols != nullptr && !debug_files(*symbols).empty()});
  }
  return known->second;
}

std::uint32_t FunctionTable::intern(const LoadedModule* module, const ModuleSymbols* symbols,
                                    const NativeFunction& function) {
  const auto [known, is_new] = function_index_.try_emplace(
      std::pair(module, function.address), static_cast<std::uint32_t>(trace_.functions.size()));
  if (!is_new) return known->second;
  TraceFunction made;
  made.module = module != nullptr ? intern_module(module) : kNone;
  made.address = function.address;
  made.symbol = function.symbol;
  if (symbols != nullptr) made.source_file = symbols->source_file(function);
  made.probed = is_planned(module, function.address);
  trace_.functions.push_back(std::move(made));
  located_.push_back({module, symbols, function});
  return known->second;
}

namespace {

// Returns true if a call of `target` always enters `entry` first in the call's own slot, apart from
// functions without a probe on the way that only jump on to the next one, as PyErr_Clear does to
// _PyErr_Clear and that to _PyErr_Restore.
bool hands_on_to(const ModuleSymbols& module, CallTarget target, std::uint64_t entry) {
  for (int jumps = 0; jumps <= kMaxJumps; ++jumps) {
    const auto address =
        target.name.empty() ? std::optional(target.address) : module.definition(target.name);
    if (!address) return false;
    if (*address == entry) return true;
    const auto function = module.find_piece(*address);
    if (!function || function->address != *address) return false;
    const FunctionJumps next = optrace::find_jumps(module, *function);
    if (next.jumps_indirectly || next.tail_calls.size() + next.named_tail_calls.size() != 1)
      return false;
    target = next.tail_calls.empty() ? CallTarget{0, next.named_tail_calls.front()}
                                     : CallTarget{next.tail_calls.front(), {}};
  }
  return false;
}

}  // namespace

bool calls_by_name(const LocatedFunction& caller, std::uint64_t return_address,
                   const LocatedFunction& function, std::uint32_t index,
                   const NamedFunctions& named) {
  if (caller.symbols == nullptr) return false;
  const auto target = call_target_before(*caller.symbols, return_address);
  if (!target) return false;
  if (!target->name.empty()) {
    const auto found = named.find(target->name);
    if (found != named.end() && std::ranges::count(found->second, index) != 0) return true;
  }
  return function.symbols == caller.symbols &&
         hands_on_to(*caller.symbols, *target, function.function.address);
}

}  // namespace optrace

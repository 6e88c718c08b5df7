#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "platform/elf/function_jumps.h"
#include "tracer/probes/probe_plan.h"
#include "tracer/probes/process_map.h"
#include "tracer/trace/recording.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Maps the addresses and probes of one process to functions. A function gets its index, and the
/// information from its file, when it first occurs.
class FunctionTable {
 public:
  /// All must outlive the table. Functions and modules are added to `trace`.
  FunctionTable(const ModuleList& modules, ModuleStore& store, Trace& trace);

  /// Adds the probes of a range; `plan` is their plan. With `late`, its functions don't count as
  /// probed: calls that were entered before the probes were placed may be live.
  void add_probes(const PlacedProbes& range, const ProbePlan& plan, bool late);

  bool has_probe(std::uint32_t id) const;

  /// Returns the function of a probe, which must be in the table.
  std::uint32_t function_of_probe(std::uint32_t id);

  /// Sets all fields of a kReturnedValue event but the time. Returns false if its probe is unknown.
  bool read_returned(const recording::Event& raw, Event& event) const;

  /// The function that contains the call before a return address.
  struct Caller {
    std::uint32_t function = kNone;    ///< kNone if unknown.
    std::uint64_t return_address = 0;  ///< As linked if it is in a module, else absolute.
  };
  Caller find_caller(std::uint64_t return_address);

  /// Sets all fields of a kCaller event but the time. Returns false if its function is unknown.
  bool read_caller(const recording::Event& raw, Event& event);

  /// Returns the calling function; kNone if unknown.
  std::uint32_t caller(std::uint64_t return_address) {
    return find_caller(return_address).function;
  }

  /// Same as optrace::find_jumps(), but also includes the jumps of functions without a probe to
  /// which the function jumps directly, because their own entries are not recorded.
  FunctionJumps find_jumps(std::uint32_t function) const;

  /// Returns the address as linked if it is in a module, else unchanged.
  std::uint64_t as_linked(std::uint64_t address) const;

  const LocatedFunction& located(std::uint32_t function) const { return located_[function]; }
  std::size_t size() const { return located_.size(); }

 private:
  struct Range {
    std::uint32_t first_id;
    const ProbePlan* plan;
    const LoadedModule* module;
    const ModuleSymbols* symbols;
    std::vector<std::uint32_t> functions;  ///< By probe; kNone until it occurs.
  };

  bool is_planned(const LoadedModule* module, std::uint64_t address) const;
  std::uint32_t intern_module(const LoadedModule* module);
  std::uint32_t intern(const LoadedModule* module, const ModuleSymbols* symbols,
                       const NativeFunction& function);

  const ModuleList& modules_;
  ModuleStore& store_;
  Trace& trace_;
  ProcessMap process_;
  std::vector<Range> ranges_;                                          ///< Sorted by first id.
  std::map<const LoadedModule*, std::vector<std::uint64_t>> planned_;  ///< Sorted.
  std::map<const LoadedModule*, std::uint32_t> module_index_;
  std::map<std::pair<const LoadedModule*, std::uint64_t>, std::uint32_t> function_index_;
  std::unordered_map<std::uint64_t, Caller> callers_;
  std::vector<LocatedFunction> located_;  ///< Parallel to the trace's functions.
};

/// Functions by each of their names.
using NamedFunctions = std::unordered_map<std::string_view, std::vector<std::uint32_t>>;

/// Returns true if the call before `return_address` (as linked) in `caller`'s module is a call of
/// `function`, by its address or one of its names, or of a function that only jumps on to it.
bool calls_by_name(const LocatedFunction& caller, std::uint64_t return_address,
                   const LocatedFunction& function, std::uint32_t index,
                   const NamedFunctions& named);

}  // namespace optrace

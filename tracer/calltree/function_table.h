#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tracer/elf/function_jumps.h"
#include "tracer/probes/probe_plan.h"
#include "tracer/probes/process_map.h"
#include "tracer/trace/recording.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Which functions the addresses and probes of one process stand for, each given an index when it
/// first occurs, with what the files say of it.
class FunctionTable {
 public:
  /// All must outlive the table. Functions and modules are added to `trace`.
  FunctionTable(const ModuleList& modules, ModuleStore& store, Trace& trace);

  /// Tells which functions the probes of a range are in: `plan` is theirs. Those that occurred
  /// already stay as they are if `late`: what was entered before a probe was placed may be live.
  void add_probes(const PlacedProbes& range, const ProbePlan& plan, bool late);

  bool has_probe(std::uint32_t id) const;

  /// Of a hit of a probe that the table has.
  std::uint32_t function_of_probe(std::uint32_t id);

  /// Who called, from just before a return address.
  struct Caller {
    std::uint32_t function = kNone;    ///< kNone if nothing tells.
    std::uint64_t return_address = 0;  ///< As linked, for one in a module, else as it is.
  };
  Caller find_caller(std::uint64_t return_address);

  /// Fills in what a kCaller event is about, but for the time. False if nothing tells.
  bool read_caller(const recording::Event& raw, Event& event);

  /// The function that called; kNone if nothing tells.
  std::uint32_t caller(std::uint64_t return_address) {
    return find_caller(return_address).function;
  }

  /// As optrace::find_jumps. What functions without a probe jump on to, directly, counts as jumped
  /// to as well: nothing tells of their own entries.
  FunctionJumps find_jumps(std::uint32_t function) const;

  /// An address as linked, for one in a module, else as it is.
  std::uint64_t as_linked(std::uint64_t address) const;

  const LocatedFunction& located(std::uint32_t function) const { return located_[function]; }
  std::size_t size() const { return located_.size(); }

 private:
  struct Range {
    std::uint32_t first_id;
    const ProbePlan* plan;
    const LoadedModule* module;
    const ModuleSymbols* symbols;
    std::vector<std::uint32_t> functions;  ///< Of each probe, once it occurred.
  };

  bool is_planned(const LoadedModule* module, std::uint64_t address) const;
  std::uint32_t intern_module(const LoadedModule* module);
  std::uint32_t intern(const LoadedModule* module, const ModuleSymbols* symbols,
                       const NativeFunction& function);

  const ModuleList& modules_;
  ModuleStore& store_;
  Trace& trace_;
  ProcessMap process_;
  std::vector<Range> ranges_;                                          ///< By first id.
  std::map<const LoadedModule*, std::vector<std::uint64_t>> planned_;  ///< Sorted.
  std::map<const LoadedModule*, std::uint32_t> module_index_;
  std::map<std::pair<const LoadedModule*, std::uint64_t>, std::uint32_t> function_index_;
  std::unordered_map<std::uint64_t, Caller> callers_;
  std::vector<LocatedFunction> located_;  ///< As the trace's functions.
};

/// Functions by all their names.
using NamedFunctions = std::unordered_map<std::string_view, std::vector<std::uint32_t>>;

/// Whether the call just before `return_address` (as linked) in `caller`'s module is one of
/// `function`, by address or by one of its names, or of another that only jumps on to it.
bool calls_by_name(const LocatedFunction& caller, std::uint64_t return_address,
                   const LocatedFunction& function, std::uint32_t index,
                   const NamedFunctions& named);

}  // namespace optrace

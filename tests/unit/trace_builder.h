#pragma once

#include <cstdint>
#include <string>

#include "tracer/trace/trace.h"

namespace optrace {

/// Builds a trace by hand. Slots are plain numbers, on a stack that grows down.
class TraceBuilder {
 public:
  TraceBuilder() {
    trace.modules.push_back({"libtorch_cpu.so", ""});
    trace.threads.emplace_back().id = 1;
  }

  std::uint32_t function(const std::string& symbol, bool probed = true) {
    optrace::TraceFunction& added = trace.functions.emplace_back();
    added.module = 0;
    added.symbol = symbol;
    added.probed = probed;
    return static_cast<std::uint32_t>(trace.functions.size() - 1);
  }
  std::uint32_t python(const std::string& name) {
    trace.python_functions.push_back({name, "/torch/nn/functional.py", 1});
    return static_cast<std::uint32_t>(trace.python_functions.size() - 1);
  }
  /// Adds a function entry. `site` distinguishes call instructions of the same caller.
  std::uint32_t enter(std::uint32_t what, std::uint32_t caller, std::uint64_t slot,
                      std::uint64_t site = 0) {
    const std::uint64_t return_address =
        caller == kNone ? 0 : (caller + std::uint64_t{1}) * 1000 + site;
    trace.threads[0].events.push_back({.kind = EventKind::function_entry,
                                       .what = what,
                                       .caller = caller,
                                       .stack_pointer = slot,
                                       .return_address = return_address});
    return static_cast<std::uint32_t>(trace.threads[0].events.size() - 1);
  }
  /// Adds the event of a caller without a probe; the arguments are those of enter().
  std::uint32_t called_by(std::uint32_t what, std::uint32_t caller, std::uint64_t slot,
                          std::uint64_t site = 0) {
    const std::uint32_t index = enter(what, caller, slot, site);
    trace.threads[0].events[index].kind = EventKind::caller;
    return index;
  }
  std::uint32_t python_event(EventKind kind, std::uint32_t what, std::uint64_t slot,
                             std::uint32_t line = 0) {
    trace.threads[0].events.push_back(
        {.kind = kind, .what = what, .line = line, .stack_pointer = slot});
    return static_cast<std::uint32_t>(trace.threads[0].events.size() - 1);
  }
  void live_at_start(std::uint32_t function, std::uint64_t slot) {
    trace.threads[0].initial_stack.push_back({function, slot, 0});
  }

  Trace trace;
};

}  // namespace optrace

#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "report/check/names/known_names.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// The methods by which a class is called: it is constructed, or its objects are called.
inline constexpr auto kCalledMethods =
    std::to_array<std::string_view>({"__init__", "__new__", "forward", "__call__"});

bool is_called_method(std::string_view function);

/// The calls of a name in traces, whether a report shows them or not.
struct RecordedCalls {
  std::uint64_t native = 0;   ///< Of C++ functions, and of builtins and operators of Python.
  std::uint64_t python = 0;   ///< Of Python functions.
  std::uint64_t unshown = 0;  ///< Of ops and as in `native`, by imports of torch's modules and by
                              ///< compilations.
  /// Methods of the name's class were called that led to nothing, and are neither its constructor
  /// nor its forward(): some may have been called from outside of the class.
  bool other_methods = false;
};

/// Returns true if each call of a Python function was counted, whatever it led to.
bool counts_python(const Trace& trace);

/// Adds a trace's calls.
void add_recorded_calls(const Trace& trace, const NameTargets& targets, RecordedCalls& calls);

}  // namespace optrace

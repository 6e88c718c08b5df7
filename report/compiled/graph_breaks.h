#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "report/model/report.h"

namespace optrace {

/// The graph breaks of torch.compile below compiled functions.
struct GraphBreaks {
  bool compiled = false;  ///< A function returned by torch.compile was called.
  /// Number of breaks by the frame that shows them: the function that continues after a break, or a
  /// function that Dynamo was to compile and that ran uncompiled instead.
  std::unordered_map<const Frame*, std::uint64_t> at;
};

/// The keys point into the report.
GraphBreaks find_graph_breaks(const Report& report);

/// Returns true for the frame that torch.compile puts around a compiled function.
bool is_compiled_call(const Frame& frame);

/// The compilations of functions that a compiled call starts itself, not those that it calls.
struct Compilations {
  std::set<std::string> functions;  ///< Names of the functions that were compiled.
  std::uint64_t count = 0;
  std::uint64_t time = 0;  ///< Nanoseconds.
};

/// `compiled` is a frame for which is_compiled_call() is true.
Compilations compilations_of(const Frame& compiled);

/// Returns true for a function that continues after a graph break.
bool is_resumed(const Frame& frame);

/// Returns the name of the function that such a frame continues: `forward`.
std::string function_before_break(const Frame& resumed);

/// The same for the name of a compiled function; empty if it continues none.
std::string function_before_break(std::string_view name);

/// Returns true for a frame below which nothing is the program's work: a module of torch that is
/// imported, the compiler of torch.compile, which tries ops out, and the autotuning of Triton
/// kernels.
bool is_setup(const Frame& frame);

}  // namespace optrace

#pragma once

#include <cstdint>
#include <string_view>

#include "pytorch/functions/function_roles.h"
#include "tracer/calltree/call_tree_functions.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Returns TracePath::call_offset of an entry into a function of the trace whose caller is
/// `caller`.
inline std::uint32_t call_offset_of(const Trace& trace, const Event& entry, std::uint32_t caller) {
  const TraceFunction& function = trace.functions[caller];
  if (function.module == kNone || !trace.modules[function.module].debug_info) return 0;
  return static_cast<std::uint32_t>(entry.return_address - function.address);
}

/// The properties of functions that the counter needs in addition to those for the call tree.
class PathFunctions : public CallTreeFunctions {
 public:
  virtual const FunctionRole& role(std::uint32_t function) const = 0;
  /// Returns true if the function has no path of its own, because only the functions that it leads
  /// to matter. A path without a function stands for it and for all such functions below.
  virtual bool is_uncounted(std::uint32_t function) const = 0;
  /// Returns TracePath::call_offset of an entry whose caller is `caller`.
  virtual std::uint32_t call_offset(const Event& entry, std::uint32_t caller) const = 0;
  virtual std::string_view python_name(std::uint32_t python_function) const = 0;
  /// Returns `aten::add.Tensor`, or another name that has records of its calls; empty without a
  /// name.
  virtual std::string_view op_name(std::uint32_t record) const = 0;
};

}  // namespace optrace

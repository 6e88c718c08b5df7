#include "report/check/names/recorded_calls.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "pytorch/functions/dispatcher_steps.h"
#include "pytorch/functions/layers.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {

bool is_called_method(std::string_view function) {
  return std::ranges::find(kCalledMethods, function.substr(function.rfind('.') + 1)) !=
         kCalledMethods.end();
}

namespace {

class CallsOfTrace {
 public:
  CallsOfTrace(const Trace& trace, const NameTargets& targets, RecordedCalls& calls)
      : trace_(trace), targets_(targets), calls_(calls) {
    for (const TraceFunction& function : trace.functions) {
      const std::string name = qualified_name(function.symbol);
      functions_.push_back(!function.symbol.empty() && targets.names(name));
      bindings_.push_back(targets.names_binding(function.symbol, function.source_file));
      ops_.push_back(is_called_op(function.symbol));
    }
    for (const PythonFunction& function : trace.python_functions)
      python_.push_back(targets.names(function.name));
  }

  void add() {
    for (const TracePath& path : trace_.paths) {
      if (is_python(path)) {
        if (is_named_python(path)) calls_.python += path.calls;
      } else if (path.kind == PathKind::function) {
        const bool named = is_named_native(path);
        if ((named || (path.what != kNone && ops_[path.what])) && is_unshown(path))
          calls_.unshown += path.calls;
        else if (named)
          calls_.native += path.calls;
      }
    }
    if (const auto& beyond = trace_.meta.python_calls_beyond_paths)
      for (const auto& [name, calls] : *beyond) add(name, calls);
  }

 private:
  static bool is_python(const TracePath& path) {
    return path.kind == PathKind::python && path.what != kNone;
  }

  /// Adds calls of a Python function that paths don't have, or removes resumptions.
  void add(const std::string& name, std::int64_t beyond) {
    const bool method = targets_.names_method(name, {});
    if (targets_.names(name) || (method && is_called_method(name)))
      calls_.python += static_cast<std::uint64_t>(beyond);  // Modulo 2^64.
    else if (method)
      calls_.other_methods = true;
  }

  bool is_called_op(std::string_view symbol) const {
    const auto step = dispatcher_step_of_symbol(symbol);
    if (!step || step->redispatch) return false;
    const auto op = trace_.meta.op_names.find(std::string(step->op));
    return op != trace_.meta.op_names.end() && targets_.names_operator(op->second);
  }

  bool is_named_python(const TracePath& path) const {
    return python_.at(path.what) ||
           targets_.names_method(trace_.python_functions[path.what].name, python_above(path));
  }

  bool is_named_native(const TracePath& path) const {
    if (path.builtin != kNone && python_.at(path.builtin)) return true;
    if (path.what == kNone) return false;
    const std::uint32_t builtin = builtin_of(path);
    if (builtin == kNone) return functions_[path.what] || bindings_[path.what];
    // The name used by Python takes precedence; its calls were counted above if it is meant.
    return functions_[path.what] && !python_.at(builtin);
  }

  /// Returns the name by which Python called a function: its own, or that of a caller without a
  /// symbol.
  std::uint32_t builtin_of(const TracePath& path) const {
    if (path.builtin != kNone || path.parent == kNone) return path.builtin;
    const TracePath& above = trace_.paths[path.parent];
    return above.kind == PathKind::function && above.what == kNone ? above.builtin : kNone;
  }

  /// Returns true for calls by what a report doesn't look into: imports, compilations.
  bool is_unshown(const TracePath& path) const {
    for (std::uint32_t above = path.parent; above != kNone; above = trace_.paths[above].parent)
      if (is_python(trace_.paths[above]) &&
          classify_python(trace_.python_functions[trace_.paths[above].what].name).opaque)
        return true;
    return false;
  }

  std::string_view python_above(const TracePath& path) const {
    for (std::uint32_t above = path.parent; above != kNone; above = trace_.paths[above].parent)
      if (is_python(trace_.paths[above]))
        return trace_.python_functions.at(trace_.paths[above].what).name;
    return {};
  }

  const Trace& trace_;
  const NameTargets& targets_;
  RecordedCalls& calls_;
  std::vector<bool> functions_, bindings_, ops_, python_;
};

}  // namespace

bool counts_python(const Trace& trace) {
  return trace.meta.python_calls_beyond_paths.has_value();
}

void add_recorded_calls(const Trace& trace, const NameTargets& targets, RecordedCalls& calls) {
  CallsOfTrace(trace, targets, calls).add();
}

}  // namespace optrace

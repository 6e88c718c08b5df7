#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tracer/trace/trace_selection.h"

namespace optrace {

/// Applies a selection to the names of ops and modules, and to the number of an op call.
class OpSelection {
 public:
  explicit OpSelection(TraceSelection selection);

  /// Returns true if nothing is excluded.
  bool everything() const { return everything_; }
  /// Returns true if only a module may be selected.
  bool every_op() const {
    return selection_.ops.empty() && selection_.skip == 0 && selection_.count == 0;
  }
  bool every_module() const { return selection_.from_module.empty(); }

  /// Returns true if an op is selected by its name in at::_ops (`add_Tensor`) or, if `op` is not
  /// empty, by its full name (`aten::add.Tensor`).
  bool includes_op(std::string_view step_name, std::string_view op) const;
  /// Returns true if a Python function, given by its qualified name, is in the selected module.
  bool includes_python(std::string_view name) const;
  /// Returns true if the selected op call with this number, from 0, is counted.
  bool includes_call(std::uint64_t number) const;
  /// Returns true if none of the op calls after the first `calls` is counted.
  bool is_complete(std::uint64_t calls) const;

 private:
  bool wants(std::string_view step_name, std::string_view op) const;

  TraceSelection selection_;
  bool everything_;
  std::string pattern_;        // For ops, as at::_ops names them.
  std::string scope_pattern_;  // For their namespace; empty: any.
};

}  // namespace optrace

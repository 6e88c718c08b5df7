#include "tracer/collect/op_selection.h"

#include <cstddef>
#include <utility>

#include "platform/text/glob.h"
#include "pytorch/names/op_name.h"

namespace optrace {
namespace {

// `torch.nn.modules` is in `torch.nn`, and in itself.
bool is_in_module(std::string_view name, std::string_view module) {
  return name.starts_with(module) && (name.size() == module.size() || name[module.size()] == '.');
}

}  // namespace

OpSelection::OpSelection(TraceSelection selection)
    : selection_(std::move(selection)), everything_(selection_.everything()) {
  if (selection_.ops.empty()) return;
  pattern_ = unambiguous_name(selection_.ops);
  if (const std::size_t scope = selection_.ops.find("::"); scope != std::string::npos)
    scope_pattern_ = selection_.ops.substr(0, scope);
}

bool OpSelection::includes_op(std::string_view step_name, std::string_view op) const {
  return selection_.ops.empty() || (!step_name.empty() && wants(step_name, op));
}

bool OpSelection::wants(std::string_view step_name, std::string_view op) const {
  if (!scope_pattern_.empty()) {
    const std::size_t scope = op.find("::");
    // at::_ops contains aten's ops, and a step without a record has no other name.
    const std::string_view space = scope == std::string_view::npos ? "aten" : op.substr(0, scope);
    if (!matches_glob(space, scope_pattern_)) return false;
  }
  // `add` matches all its overloads.
  return matches_glob(step_name, pattern_) ||
         (!op.empty() && matches_glob(unambiguous_name(op.substr(0, op.rfind('.'))), pattern_));
}

bool OpSelection::includes_python(std::string_view name) const {
  return is_in_module(name, selection_.from_module);
}

bool OpSelection::includes_call(std::uint64_t number) const {
  return number >= selection_.skip &&
         (selection_.count == 0 || number < selection_.skip + selection_.count);
}

bool OpSelection::is_complete(std::uint64_t calls) const {
  return selection_.count != 0 && calls > selection_.skip + selection_.count;
}

}  // namespace optrace

#include "report/compare/compared_step.h"

#include <cstddef>

#include "pytorch/functions/generated_names.h"
#include "pytorch/functions/layers.h"
#include "pytorch/functions/vendor_libraries.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

// Returns true for library functions that only lead to others: C++ wrappers of libraries, and
// functions that launch kernels, whose names change between releases of CUDA.
bool leads_to_library(std::string_view name) {
  return name.starts_with("ideep::") || name.starts_with("cudnn_frontend::") ||
         launches_kernel(name) || name == "__cudaPushCallConfiguration";
}

}  // namespace

std::string_view last_part(std::string_view name) {
  for (std::size_t at = name.size(); at-- > 0;)
    if (name[at] == ':' || name[at] == '.') return name.substr(at + 1);
  return name;
}

bool is_wrapper(const Frame& frame) {
  return frame.layer == Layer::kernel && is_wrapper(frame.name);
}

const std::string* dispatched_op(const Frame& frame) {
  return frame.op && frame.layer == Layer::dispatcher ? &*frame.op : nullptr;
}

bool is_work(const Frame& frame) {
  if (frame.layer == Layer::device) return true;
  return frame.layer == Layer::library && !is_library_bookkeeping(frame.name) &&
         !leads_to_library(frame.name);
}

std::string step_name(const Frame& frame) {
  const std::string* const op = dispatched_op(frame);
  return op != nullptr ? *op : short_name(frame.name);
}

std::uint64_t StepKeys::key_of(const Frame& frame) {
  const std::string* const op = dispatched_op(frame);
  const std::uint64_t number = op != nullptr ? number_of(*op) : short_number_of(frame.name);
  const bool redispatch = op != nullptr && frame.detail->dispatch->step == DispatchStep::redispatch;
  return number << 8U | static_cast<std::uint64_t>(frame.layer) << 1U | (redispatch ? 1U : 0U);
}

std::uint64_t StepKeys::number_of(std::string_view name) {
  return numbers_.try_emplace(std::string(name), numbers_.size()).first->second;
}

std::uint64_t StepKeys::short_number_of(const std::string& name) {
  const auto known = short_numbers_.find(name);
  if (known != short_numbers_.end()) return known->second;
  return short_numbers_[name] = number_of(short_name(name));
}

bool StepFilter::is_step(const Frame& frame) const {
  if (is_wrapper(frame)) return false;
  if (everything_) return true;
  switch (frame.layer) {
    case Layer::python:  // Named functions of the program itself.
      return !frame.name.starts_with("torch.") && !last_part(frame.name).starts_with('<');
    case Layer::dispatcher:
    case Layer::kernel:
      return frame.op.has_value();
    case Layer::autograd:  // Functions that only pass ops on differ by version.
      return frame.name.ends_with("::apply") ||
             (frame.op.has_value() && frame.name.find("ADInplaceOrView::") == std::string::npos);
    case Layer::library:
      return is_work(frame);
    case Layer::device:
      return true;
    case Layer::binding:
    case Layer::runtime:
    case Layer::compiler:
      return false;
  }
  return false;
}

}  // namespace optrace

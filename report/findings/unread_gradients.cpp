#include "report/findings/unread_gradients.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/core.h>

#include "platform/text/joined.h"
#include "platform/text/printable_text.h"
#include "report/compiled/graph_breaks.h"
#include "report/model/frame_time.h"
#include "report/model/op_call.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

constexpr std::string_view kAccumulate = "torch::autograd::AccumulateGrad";
// Called for each backward pass. torch/autograd/graph.py.
constexpr std::string_view kRunBackward = "torch.autograd.graph._engine_run_backward";

// Shape and type of a tensor.
using Kind = std::pair<Sizes, std::string>;

// Where a frame is.
enum class Part : std::uint8_t {
  forward,     // Anywhere in the program but the following; also in hooks.
  derivative,  // Below an autograd node, which makes gradients.
  accumulate,  // Below the node that stores one.
  set_up,      // Below functions that make or load parameters.
};

struct Place {
  Part part = Part::forward;
  bool in_op = false;
};

// Returns true for functions of torch.nn that get the values of parameters, never gradients.
bool makes_parameters(const Frame& frame) {
  if (frame.layer != Layer::python) return false;
  const std::string_view name = frame.name;
  return name.starts_with("torch.nn.init.") || name == "torch.nn.parameter.Parameter.__new__" ||
         name == "torch.nn.modules.module.Module.load_state_dict" ||
         (name.starts_with("torch.nn.modules.") &&
          (name.ends_with(".__init__") || name.ends_with(".reset_parameters")));
}

bool is_optimizer_step(const Frame& frame) {
  return frame.layer == Layer::python && frame.name.starts_with("torch.optim.") &&
         frame.name.ends_with(".step");
}

// Returns true if a list of tensors goes on beyond what the record of the op has.
bool has_longer_list(const std::vector<Argument>& arguments) {
  return std::ranges::any_of(arguments, [](const Argument& argument) {
    const auto* const list = std::get_if<std::vector<Scalar>>(&argument.value);
    if (list == nullptr || list->empty()) return false;
    const auto* const last = std::get_if<OtherValue>(&list->back());
    return last != nullptr && last->type == "more";
  });
}

class Gradients {
 public:
  explicit Gradients(const Report& report) : complete_(shows_everything(report)) {
    if (complete_)
      walk_frames(report.roots, Place{},
                  [this](const Frame& frame, const Place& above) { return visit(frame, above); });
  }

  std::unordered_map<const Frame*, UnreadGradients> unread() const {
    std::unordered_map<const Frame*, UnreadGradients> result;
    // With several places, a gradient may come from any of them.
    if (!complete_ || steps_ < 2 || backward_.size() != 1) return result;
    UnreadGradients unread;
    std::vector<std::string> shapes;
    for (const auto& [kind, count] : stored_) {
      if (count < 2 || read_.contains(kind)) continue;
      unread.count += count;
      shapes.push_back(fmt::format("{}{}{}", joined(kind.first, "×"), kind.first.empty() ? "" : " ",
                                   printable(kind.second)));
    }
    if (shapes.empty()) return result;
    constexpr std::size_t kShown = 4;
    const std::size_t more = shapes.size() > kShown ? shapes.size() - kShown : 0;
    shapes.resize(shapes.size() - more);
    unread.shapes = joined(shapes, ", ");
    if (more != 0) unread.shapes += fmt::format(" and {} more", more);
    result.emplace(backward_.front(), std::move(unread));
    return result;
  }

 private:
  static bool shows_everything(const Report& report) {
    return std::ranges::all_of(
               report.shortfalls,
               [](const Shortfall& shortfall) { return shortfall.kind == "timeline_ends"; }) &&
           !report.recording.has_selection;
  }

  Place visit(const Frame& frame, Place at) {
    if (is_compiled_call(frame)) complete_ = false;  // It may read anything without an op.
    if (is_optimizer_step(frame)) steps_ += frame.calls;
    if (frame.layer == Layer::python) {
      // A hook of a node, or of the engine.
      at = Place{.part = at.part == Part::set_up ? at.part : Part::forward, .in_op = false};
      if (frame.name == kRunBackward) backward_.push_back(&frame);
      if (makes_parameters(frame)) at.part = Part::set_up;
    } else if (frame.name == kAccumulate) {
      at = Place{.part = Part::accumulate, .in_op = false};
    } else if (is_backward(frame)) {
      at = Place{.part = Part::derivative, .in_op = false};
    }
    if (!is_op_call(frame) || at.in_op) return at;
    at.in_op = true;
    if (at.part == Part::forward || at.part == Part::accumulate) note(frame, at.part);
    return at;
  }

  void note(const Frame& op, Part part) {
    if (op.detail->dispatch->variants_left_out != 0) complete_ = false;
    for (const OpCalls& kind : op_calls(op)) {
      const std::optional<std::vector<Argument>>& arguments = kind.arguments;
      if (!arguments || has_longer_list(*arguments)) complete_ = false;
      if (!arguments) continue;
      for (const Argument& argument : *arguments)
        for (const TensorFacts* const tensor : tensors_in(argument.value))
          note(argument.name, *tensor, kind.calls, part);
    }
  }

  void note(const std::string& argument, const TensorFacts& tensor, std::uint64_t calls,
            Part part) {
    if (!tensor.shape) {
      complete_ = false;
      return;
    }
    const Kind kind(*tensor.shape, tensor.dtype);
    if (part == Part::forward) {
      if (!tensor.requires_grad) read_.insert(kind);
    } else if (tensor.requires_grad) {
      complete_ = false;  // A gradient that is itself to be differentiated.
    } else if (argument == "self") {
      stored_[kind] += calls;
    }
  }

  bool complete_;
  std::uint64_t steps_ = 0;
  std::vector<const Frame*> backward_;
  std::map<Kind, std::uint64_t> stored_;
  std::set<Kind> read_;
};

}  // namespace

std::unordered_map<const Frame*, UnreadGradients> find_unread_gradients(const Report& report) {
  return Gradients(report).unread();
}

}  // namespace optrace

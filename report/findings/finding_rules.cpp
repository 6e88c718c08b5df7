#include "report/findings/finding_rules.h"

#include <array>

#include "report/findings/rule_functions.h"

namespace optrace {
namespace {

constexpr auto kRules = std::to_array<FindingRule>({
    {"implicit-copy", "copies between devices that the program did not ask for",
     "Each copy crosses the bus, and most of them make the host wait.",
     "Create the tensor on the device, or move it there once, before the loop.", 1, implicit_copy},
    {"host-wait", "the host waits for the device",
     "While the host waits, it queues no work, and the device runs dry.",
     "Keep the value on the device, or read it once every many steps.", 2, host_wait},
    {"layout-copy", "copies that only change the order of a tensor in memory",
     "Each copy reads and writes the whole tensor and computes nothing.",
     "Keep one order throughout: move the model and its input to channels_last once, and store a "
     "tensor in the order that its users need.",
     2, layout_copy},
    {"repeated-cast", "parameters that autocast casts in every step",
     "A cast parameter is kept only until the autocast context ends, so each step reads and writes "
     "all of them again.",
     "For inference, convert the model once, with model.to(dtype). In training, put several "
     "batches "
     "into one context, or give small layers enabled=False.",
     2, repeated_cast},
    {"slow-kernel", "kernels that stand in where no fast one fits",
     "A fallback can be many times slower than the library's or the fused kernel.",
     "Use a dtype, layout and arguments that the fast kernel supports; `optrace explain OP` shows "
     "the kernels of an op.",
     1, slow_kernel},
    {"tiny-ops", "many calls of ops on few elements",
     "A call costs microseconds however few elements it has.",
     "Stack the tensors and call each op once on the whole, or compile the function with "
     "torch.compile.",
     1000, tiny_ops, true},
    {"launch-bound", "kernels that take the device less time than the host needs to launch them",
     "The device waits for the host, however fast it is.",
     "Give each call more work: larger batches, foreach functions, torch.compile; or replay the "
     "calls as one CUDA graph.",
     1000, launch_bound, true},
    {"repeated-op", "the same tensor computed again and again",
     "Its input does not change, so every call gives the same tensor.",
     "Compute it once: in __init__ with register_buffer(), or before the loop.", 10, repeated_op},
    {"graph-break", "graph breaks of torch.compile",
     "At a break, compiled code returns to Python, and nothing is fused across it.",
     "Move the unsupported code out of the compiled function; TORCH_LOGS=graph_breaks prints the "
     "reason.",
     1, graph_break},
    {"recompile", "functions that torch.compile compiles again",
     "A compilation takes seconds, and happens whenever a guard fails: another shape, dtype or "
     "Python value.",
     "Pad inputs to few shapes, compile with dynamic=True, or make changing numbers tensors; "
     "TORCH_LOGS=recompiles prints the guards.",
     2, recompile},
    {"unused-graph", "autograd graphs that no backward pass uses",
     "Recording a graph takes time in each op, and keeps the inputs of all of them in memory.",
     "Put the code into `with torch.no_grad():` or torch.inference_mode(), or detach() what enters "
     "it.",
     2, unused_graph},
    {"unread-gradient", "gradients that nothing reads",
     "Each gradient takes the time of the derivatives that lead to it, and memory.",
     "Freeze the parameters that no optimizer has, with requires_grad_(False), or run that part of "
     "the model in torch.no_grad(); create inputs without requires_grad.",
     2, unread_gradient},
    {"idle-worker", "DataLoader workers that do nothing",
     "Starting a worker costs a process with its memory, in each epoch.",
     "Use at most as many workers as there are batches, fewer if they are idle most of the time.",
     1, idle_worker},
    {"for-loop-optimizer", "optimizers that update one parameter after another",
     "Every parameter costs several calls of ops in each step.",
     "Pass fused=True (or, on a GPU, foreach=True) to the optimizer.", 2, for_loop_optimizer},
});

}  // namespace

std::span<const FindingRule> finding_rules() {
  return kRules;
}

}  // namespace optrace

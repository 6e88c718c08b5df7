#pragma once

// What a report has of the calls of a frame: the keys of `detail` in its JSON, which
// docs/report-format.md explains. C++17, because the reader library that other programs link
// includes it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "pytorch/values/library_call.h"
#include "pytorch/values/values.h"
#include "report/model/shared.h"

namespace optrace {

// ---- Dispatcher frames ----

enum class DispatchStep : std::uint8_t {
  call,        ///< Enters the op.
  redispatch,  ///< Hands the op on to the next dispatch key.
};

/// Returns `call` or `redispatch`.
constexpr std::string_view name_of(DispatchStep step) {
  return step == DispatchStep::call ? "call" : "redispatch";
}

using DispatchKeys = std::vector<std::string>;  ///< Names, the dispatcher's first choice first.

/// The choice that the dispatcher made. What is unknown is empty.
struct DispatchChoice {
  std::optional<DispatchKeys> key_set;   ///< The set from which it chose.
  std::optional<DispatchKeys> included;  ///< Keys that thread-local state added.
  std::optional<DispatchKeys> excluded;  ///< Keys that thread-local state removed.
  /// Keys before the chosen one for which a fallthrough is registered.
  std::optional<DispatchKeys> fallthrough;
  std::string dispatch_key;   ///< The chosen one.
  std::string kernel;         ///< Registered for it, as torch._C._dispatch_dump_table prints it.
  std::string registered_at;  ///< `file:line` of that registration.
  std::string dispatch;       ///< `kernel`, `boxed kernel`, `boxed fallback` or `python`.

  auto fields() const {
    return std::tie(key_set, included, excluded, fallthrough, dispatch_key, kernel, registered_at,
                    dispatch);
  }
};

/// The calls of one kind, if calls of several kinds took a path.
struct CallVariant {
  std::uint64_t calls = 0;
  std::optional<std::vector<Argument>> arguments;  ///< Of a call; a redispatch has none.
  std::optional<DispatchKeys> key_set;             ///< Of a redispatch.
  std::string dispatch_key;                        ///< Empty if unknown.

  auto fields() const { return std::tie(calls, arguments, key_set, dispatch_key); }
};

/// A tensor and the place in memory where it is (`optrace OP --tensors`).
struct StoredTensor {
  std::string name;              ///< Of the argument; empty for a result.
  std::optional<Sizes> shape;    ///< Nothing if it is unknown.
  std::optional<Sizes> strides;  ///< Same.
  std::string dtype, device;     ///< Empty if unknown.
  std::uint64_t version = 0;     ///< The version counter.
  std::uint64_t storage = 0;     ///< The number of its storage; 0: none, or unknown.
  std::int64_t offset = 0;       ///< In elements.
  bool requires_grad = false;
  bool written = false;  ///< The op writes to this argument.
  ResultRelation relation = ResultRelation::unknown;
  std::string of;  ///< The argument that it is a view or an alias of.
  std::optional<std::uint64_t>
      new_bytes;  ///< Size of the storage that the op made for this result.

  auto fields() const {
    return std::tie(name, shape, strides, dtype, device, version, storage, offset, requires_grad,
                    written, relation, of, new_bytes);
  }
};

/// A copy of a tensor's data into another storage.
struct StorageCopy {
  std::uint64_t from = 0, to = 0;  ///< Numbers of storages.
  std::string reason;  ///< `device: cpu to cuda:0`, `dtype: ...`, `layout: ...` or `requested`.

  auto fields() const { return std::tie(from, to, reason); }
};

/// Where the tensors of a path's first call are.
struct StoredTensors {
  std::vector<StoredTensor> arguments, results;
  std::vector<StorageCopy> copies;  ///< Those that the op makes itself.

  auto fields() const { return std::tie(arguments, results, copies); }
};

/// Why a backend of attention refuses a call.
struct AttentionRefusal {
  std::string message;     ///< PyTorch's.
  std::string file;        ///< Of PyTorch's source, that printed it; empty if unknown.
  std::uint32_t line = 0;  ///< From 1; 0 if it is unknown.
  std::string check;       ///< The function that refused the call; empty if unknown.

  auto fields() const { return std::tie(message, file, line, check); }
};

enum class BackendState : std::uint8_t {
  chosen,
  possible,  ///< It supports the call as well.
  refused,
};

/// Returns the name of the state in JSON.
constexpr std::string_view name_of(BackendState state) {
  return state == BackendState::chosen     ? "chosen"
         : state == BackendState::possible ? "possible"
                                           : "refused";
}

/// A backend of aten::scaled_dot_product_attention.
struct AttentionBackend {
  std::string name;  ///< `flash`, `efficient`, `cudnn` or `math`.
  BackendState state = BackendState::possible;
  std::vector<AttentionRefusal> refusals;

  auto fields() const { return std::tie(name, state, refusals); }
};

/// Tensors of a device in memory of their own.
struct NewTensors {
  std::string device;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;  ///< Without memory that an allocator adds.

  auto fields() const { return std::tie(device, count, bytes); }
};

/// What is known of the calls of a dispatcher frame. If there were calls of several kinds, schema,
/// arguments, results and the choice are those of the most frequent kind.
struct DispatchDetail {
  DispatchStep step = DispatchStep::call;
  std::string schema;                              ///< Of the op; empty if unknown.
  std::optional<std::vector<Argument>> arguments;  ///< Nothing without op records.
  std::optional<std::vector<ResultOrList>> results;
  DispatchChoice choice;
  std::optional<bool> grad_mode, inference_mode;  ///< Nothing if unknown.
  std::uint64_t dispatch_modes = 0;  ///< Number of active modes with a __torch_dispatch__.
  /// Each kind of call, in the order of the first of each; empty if there is only one.
  std::vector<CallVariant> variants;
  std::uint64_t variants_left_out = 0;  ///< Calls of further kinds.
  std::vector<NewTensors> new_tensors;  ///< Among the results, if these differed between calls.
  /// Calls that computed a new tensor from the same unchanged inputs as an earlier call.
  std::uint64_t repeated_calls = 0;
  std::optional<StoredTensors> tensors;
  std::vector<AttentionBackend> attention_backends;

  auto fields() const {
    return std::tie(step, schema, arguments, results, choice, grad_mode, inference_mode,
                    dispatch_modes, variants, variants_left_out, new_tensors, repeated_calls,
                    tensors, attention_backends);
  }
};

// ---- Autograd, Python and generated code ----

/// A formula of derivatives.yaml.
struct Formula {
  std::vector<std::string> arguments;  ///< Whose gradients it computes.
  std::string text;
  std::uint32_t line = 0;

  auto fields() const { return std::tie(arguments, text, line); }
};

/// An autograd node that ran.
struct NodeDetail {
  std::string node;         ///< `ConvolutionBackward0`
  std::string backward_of;  ///< The op that made the node; empty if unknown.
  std::vector<Formula> formulas;

  auto fields() const { return std::tie(node, backward_of, formulas); }
};

/// What a call of generated code comes from. What is unknown is empty.
struct Origin {
  std::string op;    ///< Not of calls that are not of kernels.
  std::string node;  ///< Of the FX graph.
  std::string file;  ///< Of the program.
  std::uint32_t line = 0;
  std::string module;  ///< Path of the innermost nn.Module.

  auto fields() const { return std::tie(op, node, file, line, module); }
};

/// A text with the number of calls that had it.
struct CountedText {
  std::string value;
  std::uint64_t calls = 0;

  auto fields() const { return std::tie(value, calls); }
};

/// A local variable of a Python function.
struct RecordedVariable {
  std::string name;
  std::vector<CountedText> values;  ///< The most frequent one first.

  auto fields() const { return std::tie(name, values); }
};

// ---- Any frame ----

/// A value that calls returned, with their number.
struct CountedResult {
  /// Nothing for an empty optional. Of a pointer: 0 if it is null, otherwise 1.
  std::variant<std::monostate, bool, std::int64_t> value;
  std::string name;  ///< `true`, `Mkldnn`, `not null`; empty for a number without a name.
  std::uint64_t calls = 0;

  auto fields() const { return std::tie(value, name, calls); }
};

/// What a function returned, in the calls of which it was recorded.
struct ReturnedValues {
  std::string type;
  std::vector<CountedResult> values;  ///< The most frequent one first.
  std::uint64_t calls_left_out = 0;   ///< Calls that returned other values than a trace keeps.

  auto fields() const { return std::tie(type, values, calls_left_out); }
};

/// A decision that a function's source makes and of which there is no call.
struct DecisionNotSeen {
  std::string name;
  std::uint32_t line = 0;  ///< Of the call, in the function's file.
  bool exact = false;      ///< The line is.

  auto fields() const { return std::tie(name, line, exact); }
};

/// Processes that took a path another number of times than most.
struct CallsOfProcesses {
  std::uint64_t least = 0, most = 0;     ///< Calls of each; equal if `processes` are listed.
  std::vector<std::uint64_t> processes;  ///< Empty if there are too many different numbers.

  auto fields() const { return std::tie(least, most, processes); }
};

/// Of several processes, those that took a path. They are named by their ranks, or by their process
/// ids if not all have a rank.
struct ProcessShare {
  bool by_rank = false;
  std::vector<std::uint64_t> processes;  ///< Empty if all took it.
  std::vector<CallsOfProcesses> calls;   ///< Empty if all of these took it equally often.

  bool empty() const { return processes.empty() && calls.empty(); }
  auto fields() const { return std::tie(by_rank, processes, calls); }
};

/// Everything that a report has of the calls of a frame besides its time. What a frame has nothing
/// of is empty, 0 or false.
struct Detail {
  Shared<DispatchDetail> dispatch;  ///< Of a dispatcher frame.
  std::optional<NodeDetail> node;   ///< Of an autograd node.

  std::string library;         ///< Of a library frame: `oneDNN`, `BLAS`, `cuDNN`.
  std::string implementation;  ///< That oneDNN chose.
  bool emulated = false;       ///< The emulated device replaced the library.
  bool reads_device_memory = false;
  std::vector<LibraryCall> calls;  ///< In the order of first call.
  std::uint64_t device_work_left_out = 0;
  std::uint64_t workspace_queries = 0;  ///< Calls that only ask LAPACK for a workspace's size.

  std::vector<Launch> launches;      ///< Of a device kernel, in the order of first launch.
  std::optional<Duration> duration;  ///< Of all of these launches, on a real GPU.
  std::vector<TritonConfiguration> configurations;

  std::string cpu_capability;  ///< Of a kernel: the copy that ran, `AVX2`.
  std::vector<Origin> origins;
  bool generated = false;                 ///< Code that torch.compile or torch.fx generated.
  std::vector<std::string> compilations;  ///< IDs.
  bool backward_graph = false;            ///< Their backward graphs are meant.
  std::vector<RecordedVariable> variables;

  std::string python_name;  ///< Of a builtin: `torch.conv2d`.
  std::optional<ReturnedValues> returned;
  std::vector<DecisionNotSeen> not_seen;
  std::vector<std::uint32_t> call_lines;  ///< If there are several.
  std::uint64_t threads = 0;              ///< If there are several.
  bool tail_call = false;
  bool inlined = false;
  bool merged = false;
  bool calls_at_least = false;
  bool entered_before_recording = false;
  ProcessShare processes;

  auto fields() const {
    return std::tie(dispatch, node, library, implementation, emulated, reads_device_memory, calls,
                    device_work_left_out, launches, duration, configurations, cpu_capability,
                    origins, generated, compilations, backward_graph, variables, python_name,
                    returned, not_seen, call_lines, threads, tail_call, inlined, merged,
                    calls_at_least, entered_before_recording, processes, workspace_queries);
  }
};

}  // namespace optrace

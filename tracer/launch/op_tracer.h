#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/build/dry_run.h"
#include "tracer/probes/probe_mode.h"
#include "tracer/probes/return_sites.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// A shape that the user specified for a tensor of a sample call.
struct TensorShape {
  std::string tensor;  ///< Empty for the call's first tensor.
  std::vector<std::int64_t> sizes;
};

/// A dtype that the user specified for a tensor of a sample call.
struct TensorType {
  std::string tensor;  ///< Empty for all floating-point tensors.
  std::string dtype;   ///< PyTorch's name: "float16".
};

/// An op and its arguments.
struct OpCall {
  std::string op;              ///< As entered by the user.
  bool backward = false;       ///< Also run the backward pass of the result's sum.
  bool requires_grad = false;  ///< Floating-point inputs require a gradient.
  std::vector<TensorShape> shapes;
  std::vector<TensorType> dtypes;
  std::optional<std::string> input;  ///< The arguments as a Python expression.
  bool compile = false;              ///< Call what torch.compile makes of the op.
  /// Compare the results of traced and untraced runs: TraceMeta::comparison.
  bool compare = false;
};

/// The Python in which ops are traced.
struct LaunchRequest {
  std::filesystem::path python;
  std::string python_reason;  ///< The source of `python`, for messages: "--python".
  OpCall call;                ///< For launch().
  std::string device = "cpu";
  std::optional<DryRun> dry_run;  ///< For "cuda" on an emulated device.
  ProbeMode probes = ProbeMode::jump;
  KnownResults results;  ///< The functions whose returned values are recorded.
  bool tensors = false;  ///< The trace contains the log of tensors.
  /// Maximum time without a sign of life before the target counts as hanging.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

struct LaunchResult {
  Trace trace;
  std::string printed;  ///< The end of the target's standard output and error.
};

using LaunchProgress = std::function<void(std::string_view)>;

/// A Python process in which ops are traced one after another. Starting it takes seconds, an op
/// takes a fraction of one. The destructor ends the target and removes all its files. An
/// InterruptGuard must live. Members throw the same errors as launch(). After an Error, other
/// members may be called only if the target itself reported the problem and alive() is still true.
class OpTracer {
 public:
  /// Starts Python. `request` and `progress` must outlive this object; request.call is ignored.
  OpTracer(const LaunchRequest& request, const LaunchProgress& progress);
  ~OpTracer();
  OpTracer(const OpTracer&) = delete;
  OpTracer& operator=(const OpTracer&) = delete;

  /// Prepares a call and makes it once. No probe is placed before the first trace(). Returns the
  /// call's number.
  std::size_t prepare(const OpCall& call);

  /// Records a prepared call and returns its trace. Once for each call.
  Trace trace(std::size_t call);

  /// False once the target has died, hung or sent an invalid answer.
  bool alive() const;

  /// Ends the target and returns the end of its standard output and error.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Traces request.call in a Python process of its own: plans the probes while it imports torch,
/// records the op, and makes the trace. Reports each step to `progress`. An InterruptGuard must
/// live. The target and all files of the run are gone on return, however it ends. Throws
/// Error(usage) for a Python, torch or op that can't be traced, Error(failed) if the target died,
/// hung or sent an invalid answer, and Error(interrupted) after a signal.
LaunchResult launch(const LaunchRequest& request, const LaunchProgress& progress);

}  // namespace optrace

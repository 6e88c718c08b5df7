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

#include <nlohmann/json.hpp>

#include "tracer/runtime_build/dry_run.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// How functions are patched.
enum class ProbeMode {
  jump,  ///< 5-byte jumps, int3 where one does not fit. For a process that optrace starts.
  trap,  ///< int3 everywhere.
};

/// A shape that the user gave a tensor of a sample call.
struct TensorShape {
  std::string tensor;  ///< Its name; empty for the call's first one.
  std::vector<std::int64_t> sizes;
};

/// A dtype that the user gave a tensor of a sample call.
struct TensorType {
  std::string tensor;  ///< Its name; empty for all floating-point ones.
  std::string dtype;   ///< As torch names it: "float16".
};

/// One op, and what it is called with.
struct OpCall {
  std::string op;              ///< As the user spelled it.
  bool backward = false;       ///< The result's sum is run backward too.
  bool requires_grad = false;  ///< Floating-point inputs require a gradient.
  std::vector<TensorShape> shapes;
  std::vector<TensorType> dtypes;
  std::optional<std::string> input;  ///< The arguments as a Python expression.
  /// Holds what traced runs give against untraced ones: meta["comparison"] of the trace.
  bool compare = false;
};

/// The shape in `2x3x4` or `weight=2x3`; `scalar` is the one without dimensions. Throws
/// Error(usage).
TensorShape parse_shape(const std::string& text);

/// The dtype in `float16` or `weight=float16`. Whether torch has it, only torch can tell. Throws
/// Error(usage).
TensorType parse_dtype(const std::string& text);

/// A Python in which ops are traced.
struct LaunchRequest {
  std::filesystem::path python;
  std::string python_reason;  ///< Why this Python, for messages: "--python".
  OpCall call;                ///< For launch().
  std::string device = "cpu";
  std::optional<DryRun> dry_run;  ///< For "cuda" on an emulated device.
  ProbeMode probes = ProbeMode::jump;
  /// How long the target may go without a sign of life before it counts as hanging.
  std::chrono::milliseconds patience = std::chrono::minutes(5);
};

struct LaunchResult {
  Trace trace;
  std::string printed;  ///< The end of what the target wrote to its standard output and error.
};

using LaunchProgress = std::function<void(std::string_view)>;

/// A Python of our own, in which ops are traced one after another. Starting it costs seconds, an op
/// a fraction of one. The target and all files that belong to it are gone with it. An
/// InterruptGuard must live. Whatever a member throws is as launch() says; only after an Error that
/// says the target's own problem, with alive() still true, may others be called.
class OpTracer {
 public:
  /// Starts the Python. `request` and `progress` must outlive it; request.call is not looked at.
  OpTracer(const LaunchRequest& request, const LaunchProgress& progress);
  ~OpTracer();
  OpTracer(const OpTracer&) = delete;
  OpTracer& operator=(const OpTracer&) = delete;

  /// Finds out what a call is, and makes it once. Before the first trace() no probe is placed.
  /// Returns the call's number.
  std::size_t prepare(const OpCall& call);

  /// Records a prepared call until the probed set is closed, and makes the trace of the last
  /// recording. Once for each call.
  Trace trace(std::size_t call);

  /// False once the target has died, hung or answered nonsense.
  bool alive() const;

  /// Lets the target end, and returns the end of what it wrote to its standard output and error.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Traces request.call in a Python of its own: plans the probes while it imports torch, has the op
/// recorded until the probed set is closed, and makes the trace of the last recording. `progress`
/// is told what is being done. An InterruptGuard must live. The target and all files that belong to
/// the run are gone on return, however it ends.
/// Throws Error(usage) for a Python, torch or op that can't be traced, Error(failed) when the
/// target died, hung or answered nonsense, Error(interrupted) after a signal.
LaunchResult launch(const LaunchRequest& request, const LaunchProgress& progress);

/// The next line that the target sends, as a JSON object with a string "message". The target is
/// not trusted: lines are bounded, and what is no such object throws Error(failed).
class TargetMessages {
 public:
  static constexpr std::size_t kMaxLineLength = 16 << 20;  ///< Bytes.

  /// Adds bytes as they came. Throws Error(failed) when a line outgrows kMaxLineLength.
  void append(std::string_view bytes);

  /// True if a whole message is there.
  bool ready() const { return end_ != std::string::npos; }

  /// Takes the next message out. Only when ready().
  nlohmann::json take();

 private:
  std::string bytes_;
  std::size_t begin_ = 0;                // Of the next line. What is before it was taken.
  std::size_t end_ = std::string::npos;  // Of the next line, if it is all there.
};

}  // namespace optrace

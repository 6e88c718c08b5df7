#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "tracer/trace.h"

namespace optrace {

/// How functions are patched.
enum class ProbeMode {
  jump,  ///< 5-byte jumps, int3 where one does not fit. For a process that optrace starts.
  trap,  ///< int3 everywhere.
};

/// One op, traced once in a Python of its own.
struct LaunchRequest {
  std::filesystem::path python;
  std::string python_reason;  ///< Why this Python, for messages: "--python".
  std::string op;             ///< As the user spelled it.
  std::string device = "cpu";
  bool backward = false;
  ProbeMode probes = ProbeMode::jump;
  /// How long the target may go without a sign of life before it counts as hanging.
  std::chrono::milliseconds patience = std::chrono::minutes(5);
};

struct LaunchResult {
  Trace trace;
  std::string printed;  ///< The end of what the target wrote to its standard output and error.
};

/// Starts `python` with the target program, plans the probes while it imports torch, has the op
/// recorded until the probed set is closed, and makes the trace of the last recording. `progress`
/// is told what is being done. An InterruptGuard must live. The target and all files that belong to
/// the run are gone on return, however it ends.
/// Throws Error(usage) for a Python, torch or op that can't be traced, Error(failed) when the
/// target died, hung or answered nonsense, Error(interrupted) after a signal.
LaunchResult launch(const LaunchRequest& request,
                    const std::function<void(std::string_view)>& progress);

/// The next line that the target sends, as a JSON object with a string "message". The target is
/// not trusted: lines are bounded, and what is no such object throws Error(failed).
class TargetMessages {
 public:
  static constexpr std::size_t kLongestLine = 16 << 20;  ///< Bytes.

  /// Adds bytes as they came. Throws Error(failed) when a line outgrows kLongestLine.
  void append(std::string_view bytes);

  /// True if a whole message is there.
  bool ready() const { return bytes_.find('\n') != std::string::npos; }

  /// Takes the next message out. Only when ready().
  nlohmann::json take();

 private:
  std::string bytes_;
};

}  // namespace optrace

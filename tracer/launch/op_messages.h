#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tracer/connection/target_messages.h"
#include "tracer/launch/op_tracer.h"

namespace optrace {

/// message::kPython: a Python has started that is to trace ops.
struct PythonMessage {
  struct Version {
    std::uint64_t major, minor;
    std::string implementation;  ///< "cpython".
  };
  std::optional<Version> version;              ///< Missing if it was not sent as expected.
  std::optional<std::filesystem::path> torch;  ///< Of its package; missing if it has none.
  std::vector<std::filesystem::path> modules;
};

/// message::kReady: a call is prepared.
struct ReadyMessage {
  std::optional<std::size_t> call;             ///< Its number.
  std::vector<std::filesystem::path> modules;  ///< The libraries that it has loaded.
};

PythonMessage python_in(const TargetMessage& message);
ReadyMessage ready_in(const TargetMessage& message);

/// Returns the line with what applies to all calls.
std::string line_of(const LaunchRequest& request);

/// Returns the order to prepare a call, as a line.
std::string line_of(const OpCall& call);

}  // namespace optrace

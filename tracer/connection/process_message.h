#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "tracer/connection/target_messages.h"
#include "tracer/connection/tracing_orders.h"

namespace optrace {

/// The first message of a connection: a process imports torch, was forked, or ends.
struct ProcessMessage {
  bool ended = false;  ///< It or its window of steps ends.
  bool forked = false;
  pid_t parent = 0;                    ///< 0 if it is not known.
  std::optional<std::uint64_t> steps;  ///< The steps that it has completed, if they are counted.
  std::optional<std::uint64_t> rank;
  TorchProcess torch;
  std::vector<std::string> arguments;  ///< The command line of a process that was attached to.
};

/// Reads message::kProgram and message::kEnded.
ProcessMessage process_in(const TargetMessage& message);

/// Parses $RANK; returns nullopt if it is not a number.
std::optional<std::uint64_t> rank_number(std::string_view text);

}  // namespace optrace

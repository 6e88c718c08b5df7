#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/error.h"
#include "tracer/connection/target_messages.h"
#include "tracer/trace/trace_meta.h"

namespace optrace {

// What the messages between the command and a target say (protocol.h). A target is not trusted: the
// functions that read throw Error(failed) for what the command can't do without.

/// Reads a line of a target. Throws Error(failed) if it is no message.
TargetMessage read_message(const std::string& line);

/// Reads message::kProblem.
Error problem_in(const TargetMessage& message);

/// Reads message::kImported: what the target says of its torch.
TraceMeta torch_in(const TargetMessage& message);

/// Reads message::kMeta: what the target says of its torch and of a call. Keeps what it says of
/// generated code in the cache, and adds what is there.
TraceMeta call_in(const TargetMessage& message);

/// Reads message::kTables: adds the dispatch tables and what was compiled, as call_in() does.
void add_tables(TraceMeta& meta, const TargetMessage& message);

/// Reads message::kRecording and message::kStarted: adds the warnings, and a shortfall if Python
/// frames are not recorded.
void add_warnings(TraceMeta& meta, const TargetMessage& message);

/// An order to record or only to load the agents. Paths may be empty.
struct RecordOrder {
  const char* order;  ///< order::kRecord or order::kLoad.
  std::filesystem::path agent;
  bool use_jumps = true;
  std::uint32_t returns_per_site = 0;  ///< As RecordingRequest has it.
  std::vector<std::filesystem::path> plans;
  std::uint64_t tensor_bytes = 0;  ///< For the log of tensors; 0: there is none.
  std::filesystem::path op_agent, activity_agent, cuda_calls_agent;
  std::optional<std::size_t> call;  ///< The number of a prepared call.
  std::optional<double> timeout;    ///< In seconds.
  /// Names of the files whose descriptors follow that of the region.
  std::optional<std::vector<std::filesystem::path>> files;
};

/// Return the lines of orders, as ProgramConnection::send() takes them.
std::string line_of(const RecordOrder& order);
std::string line_of(const char* order);
std::string line_of_tables(const std::vector<std::string>& ops);
std::string line_of_describe(std::size_t call, const std::vector<std::string>& ops);

}  // namespace optrace

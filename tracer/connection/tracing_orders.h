#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gpu/build/dry_run.h"
#include "tracer/collect/collector.h"
#include "tracer/connection/message_contents.h"
#include "tracer/connection/program_socket.h"
#include "tracer/connection/target_agents.h"
#include "tracer/probes/probe_mode.h"
#include "tracer/probes/probe_session.h"

namespace optrace {

/// The time that a traced process has for its answer to an order.
inline constexpr std::chrono::milliseconds kAnswerLimit = std::chrono::seconds(60);

/// The default number of bytes that tracing may take in a process.
constexpr std::uint64_t kTargetBytes = 64ULL << 20;

/// What to record of a process, and how much memory that may take.
struct RecordingRequest {
  CollectorOptions collector;
  bool tensors = false;  ///< The trace contains the log of tensors.
  /// The number of values to record for each place that calls a function whose returned values are
  /// recorded; 0: all.
  std::uint32_t returns_per_site = 0;
  std::uint64_t target_bytes = kTargetBytes;  ///< Bytes that tracing may take in the process.
};

/// The number of bytes of the log of tensors, if one is kept. All op records together have 64
/// MiB (op_record_store.cpp).
constexpr std::uint64_t log_bytes(std::uint64_t target_bytes) {
  constexpr std::uint64_t kShare = 8;
  return std::min(target_bytes / kShare, std::uint64_t{40} << 20);
}

/// The number of these bytes that a process shares with the command for its recording. The rest is
/// for names of Python functions, which are stored elsewhere and never take more.
constexpr std::uint64_t region_bytes(std::uint64_t target_bytes) {
  return target_bytes / 2;
}

/// What is known of a process before it has imported torch.
struct TorchProcess {
  std::filesystem::path torch;                 ///< site-packages/torch; empty if it is not known.
  std::vector<std::filesystem::path> modules;  ///< To be probed, too, such as the interpreter.
  bool cuda = false;
};

/// Prepares the tracing of a process that has torch: the orders for the process, and the meta of
/// its trace. The process is not trusted.
class TracingOrders {
 public:
  /// All must outlive this object. `dry_run` is null without a dry run. `root` is the process's
  /// root folder if it differs from ours. `builds_nothing` has the reasons why nothing may be
  /// compiled or loaded for the process, as sentences for the trace's warnings; empty if it may.
  TracingOrders(ProbeSession& session, ProbeMode probes, const DryRun* dry_run,
                const std::filesystem::path& root = {}, std::string builds_nothing = {});

  /// Returns the agents for a torch, those for devices on request.
  using FindAgents =
      std::function<TargetAgents(const std::filesystem::path& torch_folder, bool devices)>;

  /// Plans probes and finds the agents for ops and devices. Throws Error, and what `find_agents`
  /// throws.
  void plan(const TorchProcess& process, const FindAgents& find_agents);

  /// The same for a process in which only compilations are recorded: nothing is to be placed.
  void plan_nothing(const TorchProcess& process);

  /// Plans the probes of a library that the process has loaded since.
  void plan_library(const std::filesystem::path& library);

  /// Leaves the plans, which a process has placed, out of later orders.
  void clear_plans() { plans_.clear(); }

  /// Returns the trace's meta, made from the process's message "imported". `call` is the program
  /// that ran. Throws Error(failed).
  TraceMeta meta(const TargetMessage& imported, const std::string& call) const;

  /// Adds to the meta of a trace how it was recorded.
  void describe(TraceMeta& meta) const;

  /// Returns the order to place everything and record what `request` asks for. The region for the
  /// recording must be sent with it, as the first descriptor.
  RecordOrder record(const RecordingRequest& request) const;

  /// The plans and the agent that the order refers to.
  std::vector<std::filesystem::path> files() const;

 private:
  ProbeSession& session_;
  const ProbeMode probes_;
  const DryRun* const dry_run_;
  const std::string builds_nothing_;
  bool cuda_ = false;
  std::vector<std::filesystem::path> plans_;
  TargetAgents agents_;
};

/// Waits for the message "recording", which a process sends once it uses its region. Adds its
/// "warnings" to meta. Throws Error(failed).
void receive_recording(ProgramConnection& connection, TraceMeta& meta);

/// Asks for the tables of these ops and adds them to meta: the dispatch tables, and what was
/// compiled. Throws Error(failed).
void receive_tables(ProgramConnection& connection, const std::vector<std::string>& ops,
                    TraceMeta& meta);

}  // namespace optrace

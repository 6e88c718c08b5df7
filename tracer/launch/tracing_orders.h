#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tracer/launch/op_tracer.h"
#include "tracer/launch/program_socket.h"
#include "tracer/probes/probe_session.h"
#include "tracer/runtime_build/activity_agent.h"
#include "tracer/runtime_build/cuda_calls_agent.h"
#include "tracer/runtime_build/dry_run.h"
#include "tracer/runtime_build/op_agent.h"

namespace optrace {

/// Bytes that tracing may take in a process, if nothing else is said.
constexpr std::uint64_t kTargetBytes = 64ULL << 20;

/// Bytes of them that it shares with the command for what it records. The rest is for names of
/// Python functions, which are kept beside it and never take more.
constexpr std::uint64_t region_bytes(std::uint64_t target_bytes) {
  return target_bytes / 2;
}

/// What a process that has torch is told to do so that it is traced, and what its trace says of it.
/// The process is not trusted.
class TracingOrders {
 public:
  /// All must outlive the orders. `dry_run`: null without one. `root`: the process's root folder,
  /// if it isn't ours. `builds_nothing`: why nothing may be compiled or loaded for the
  /// process, in sentences for the trace's warnings; empty where it may.
  TracingOrders(ProbeSession& session, ProbeMode probes, const DryRun* dry_run,
                const std::filesystem::path& root = {}, std::string builds_nothing = {});

  /// Plans probes and makes what records ops and devices' work, for a process that introduced
  /// itself with `greeting` ("torch", "modules", "cuda"). Throws Error.
  void plan(const nlohmann::json& greeting);

  /// The trace's meta, from the process's message "imported". `call` is what ran. Throws
  /// Error(failed).
  nlohmann::json meta(nlohmann::json imported, const std::string& call) const;

  /// The message to the process: everything is to be placed. The region for what it records comes
  /// with it, as the first descriptor.
  nlohmann::json record() const;

  /// The files that the message names.
  std::vector<std::filesystem::path> files() const;

 private:
  void build_agents(const std::filesystem::path& torch_folder);

  ProbeSession& session_;
  const ProbeMode probes_;
  const DryRun* const dry_run_;
  const std::string builds_nothing_;
  bool cuda_ = false;
  std::vector<std::filesystem::path> plans_;
  OpAgent op_agent_;
  ActivityAgent activity_agent_;
  CudaCallsAgent cuda_calls_agent_;
};

/// Waits until a process uses its region, by its message "recording", whose "warnings" are added to
/// meta. Throws Error(failed).
void receive_recording(ProgramConnection& connection, nlohmann::json& meta);

/// Adds the dispatch tables of the message "tables" to meta.
void add_tables(nlohmann::json& meta, nlohmann::json message);

/// Adds what is text in `message["warnings"]` to meta["warnings"], and counts as a shortfall that
/// `message["python_frames"]` is false.
void add_warnings(nlohmann::json& meta, const nlohmann::json& message);

}  // namespace optrace

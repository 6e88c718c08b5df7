#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "platform/files/private_folder.h"
#include "tracer/connection/process_message.h"
#include "tracer/connection/program_socket.h"
#include "tracer/connection/target_agents.h"
#include "tracer/connection/tracing_orders.h"
#include "tracer/launch/program_tracer.h"
#include "tracer/launch/recording_processes.h"
#include "tracer/probes/probe_session.h"

namespace optrace {

/// A process that imported torch, and the processes forked from it afterwards. These have its
/// probes, so one session plans for all of them. All work is done on a thread of the family's own.
class ProcessFamily {
 public:
  /// The references must outlive this object. `hello` is the first message of the connection.
  ProcessFamily(const ProgramRequest& request, SharedAgents& agents, pid_t program,
                ProgramConnection connection, ProcessMessage hello);
  ~ProcessFamily() { close(); }
  ProcessFamily(const ProcessFamily&) = delete;
  ProcessFamily& operator=(const ProcessFamily&) = delete;

  /// Returns true if the process is in the family, ended or not.
  bool has(pid_t process) const;

  /// Takes the first message of a process of the family: it ends, or it was forked.
  void receive(ProgramConnection connection, ProcessMessage message);

  /// Ends the compilers that the first process waits for, if any. It then continues untraced.
  void stop_building() { building_.request_stop(); }

  /// Reads the remaining data of all processes, whether they still run or not.
  void close();

  /// Returns the results. Call after close().
  std::vector<TracedProcess> take() { return std::move(done_); }

  /// Returns the process that ended before its window, if any. Call after close().
  std::optional<UnreachedWindow> unreached() const;

  void add_to(ProgramProgress& sum) const;

 private:
  void run(ProgramConnection connection, ProcessMessage hello);
  void wake();
  void show_step(std::string_view step);

  // Admission.
  void accept(ProgramConnection connection, ProcessMessage hello, bool first);
  bool start_recording(ProgramConnection& connection, const ProcessMessage& hello, bool first,
                       RecordingProcess& process);
  bool prepare(ProgramConnection& connection, const ProcessMessage& hello);
  void wait_for_message(const ProgramConnection& connection) const;
  TargetAgents find_agents(const std::filesystem::path& torch_folder, bool devices);

  // Reading.
  void drain(bool closing);
  void read_process(RecordingProcess& process, bool over);
  void sum_progress();

  // Conclusion.
  void handle_exit(ProgramConnection& connection, const ProcessMessage& message);
  void conclude(RecordingProcess& process);
  void finish(const RecordingProcess& process, TracedProcess result);
  void fail_member_on_error(RecordingProcess& process, const std::function<void()>& step);

  const ProgramRequest& request_;
  SharedAgents& agents_;
  const pid_t program_;
  const pid_t first_;
  std::stop_source building_;

  // Guards the members from woken_ to closing_, which several threads use.
  mutable std::mutex mutex_;
  std::condition_variable woken_;
  std::vector<pid_t> forked_;
  std::vector<std::pair<ProgramConnection, ProcessMessage>> received_;
  CollectorProgress counted_;
  std::string step_;  // What the first process waits for.
  bool called_ = false;
  bool closing_ = false;

  RecordingProcesses processes_;

  // Used only by thread_ until it has ended.
  PrivateFolder scratch_;
  ProbeSession session_{scratch_.path(), request_.results};
  TracingOrders orders_{session_, request_.probes, request_.dry_run ? &*request_.dry_run : nullptr};
  std::optional<TraceMeta> meta_;       // Nothing until there are plans and torch is imported.
  bool waits_ = false;                  // True until a window begins.
  std::optional<std::uint64_t> steps_;  // The steps that first_ has completed, once it says so.
  CollectorProgress finished_;
  std::chrono::steady_clock::time_point awaited_until_;
  std::vector<TracedProcess> done_;

  std::thread thread_;  // The last member: it uses all others.
};

}  // namespace optrace

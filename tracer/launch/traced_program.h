#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/types.h>

#include "platform/error.h"
#include "tracer/connection/program_socket.h"
#include "tracer/connection/target_agents.h"
#include "tracer/launch/process_family.h"
#include "tracer/launch/program_tracer.h"

namespace optrace {

/// All connections of a program's processes, and the families that the processes belong to.
class TracedProgram {
 public:
  /// The references must outlive this object.
  TracedProgram(const ProgramRequest& request, SharedAgents& agents, ProgramListener listener,
                pid_t program)
      : request_(request), agents_(agents), listener_(std::move(listener)), program_(program) {}

  /// Accepts connections and reads messages without waiting. Closes connections with invalid
  /// messages.
  void listen();

  /// Adds the descriptors that have data when listen() has something to do.
  void add_descriptors(std::vector<pollfd>& watched) const;

  ProgramProgress progress() const;

  /// Ends the compilers that processes wait for.
  void stop_building();

  /// Reads the remaining data of all processes into the result.
  void finish(ProgramResult& result);

 private:
  void handshake(ProgramConnection connection, ProcessMessage message);
  void report_failure(const Error& error);

  const ProgramRequest& request_;
  SharedAgents& agents_;
  std::optional<ProgramListener> listener_;  // Empty after finish().
  pid_t program_;
  std::vector<ProgramConnection> strangers_;
  std::vector<std::unique_ptr<ProcessFamily>> families_;
  std::vector<TracedProcess> failed_;
};

}  // namespace optrace

#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>
#include <sys/types.h>

#include "platform/descriptor.h"
#include "tracer/launch/op_tracer.h"

namespace optrace {

/// What a traced process and the command say to each other: a JSON object a line, both ways, and
/// descriptors that the command sends with one. The process is not trusted (TargetMessages), and
/// hands over none.
class ProgramConnection {
 public:
  explicit ProgramConnection(Descriptor socket) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.get(); }

  /// The process at the other end, as the system says; 0 if it does not.
  pid_t process() const;

  /// The next message as far as it is there; nothing when more has to come. Throws Error(failed)
  /// when the process closed its end, or sent what is no message.
  std::optional<nlohmann::json> poll();

  /// Waits until something has come, be it the end; false when nothing has within `limit`. Throws
  /// Error(interrupted) after a signal, if an InterruptGuard lives, as all do here that wait.
  bool wait(std::chrono::milliseconds limit) const;

  /// The next message, waited for. Throws Error(failed) as above, when none comes within `limit`,
  /// and when it is another than this one. A "problem" is thrown as the error that it is.
  nlohmann::json receive(const char* kind, std::chrono::milliseconds limit);

  /// Throws Error(failed) when the process is gone or takes nothing for seconds. `descriptors`, 250
  /// at most, come with the message's first byte.
  void send(const nlohmann::json& message, std::span<const Descriptor> descriptors = {});

 private:
  Descriptor socket_;
  TargetMessages messages_;
};

/// The socket that traced processes connect to. Only this user's processes can: it lies in a
/// private folder.
class ProgramListener {
 public:
  /// Makes the socket. Throws Error(failed).
  explicit ProgramListener(const std::filesystem::path& path);

  int descriptor() const { return socket_.get(); }

  /// The next process that has connected, if one has. Throws Error(failed).
  std::optional<ProgramConnection> accept() const;

 private:
  Descriptor socket_;
};

}  // namespace optrace

#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <sys/types.h>

#include "platform/error.h"
#include "platform/files/descriptor.h"
#include "tracer/connection/target_messages.h"

namespace optrace {

/// A process ended or closed its end of a connection.
class ConnectionEnded : public Error {
 public:
  ConnectionEnded();
};

/// A connection between a traced process and the command. Both sides send JSON objects, one per
/// line; the command can send descriptors with them. The process is not trusted (TargetMessages)
/// and can't send descriptors.
class ProgramConnection {
 public:
  explicit ProgramConnection(Descriptor socket) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.get(); }

  /// Returns the process at the other end, as the system reports it; 0 if unknown.
  pid_t process() const;

  /// Returns the next message if it is complete, else nullopt. Throws Error(failed) if the process
  /// closed its end (ConnectionEnded) or sent an invalid message.
  std::optional<TargetMessage> poll();

  /// Waits for data or the end of the connection. Returns false if neither comes within `limit`.
  /// Throws Error(interrupted) after a signal if an InterruptGuard lives, as do the other members
  /// that wait.
  bool wait(std::chrono::milliseconds limit) const;

  /// Waits for the next message and returns it. Throws Error(failed) as poll() does, if no message
  /// comes within `limit`, and if it is of another kind. A "problem" message is thrown as an Error.
  TargetMessage receive(const char* kind, std::chrono::milliseconds limit);

  /// Sends an order (message_contents.h). Throws Error(failed) if the process is gone or accepts no
  /// data for seconds. The `descriptors`, 250 at most, are sent with the line's first byte.
  void send(std::string_view line, std::span<const Descriptor> descriptors = {});

 private:
  Descriptor socket_;
  TargetMessages messages_;
};

/// The socket that traced processes connect to. It lies in a private folder, so that only processes
/// of this user can connect.
class ProgramListener {
 public:
  /// Creates the socket. Throws Error(failed).
  explicit ProgramListener(const std::filesystem::path& path);

  int descriptor() const { return socket_.get(); }

  /// Returns a connection to the next process of this user or of root that has connected, if any.
  /// Throws Error(failed).
  std::optional<ProgramConnection> accept() const;

 private:
  Descriptor socket_;
};

}  // namespace optrace

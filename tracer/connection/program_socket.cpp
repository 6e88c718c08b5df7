#include "tracer/connection/program_socket.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "platform/error.h"
#include "platform/files/private_folder.h"
#include "platform/process/interrupt.h"
#include "tracer/connection/message_contents.h"
#include "tracer/connection/protocol.h"

namespace optrace {
namespace {

namespace message = protocol::message;
using Clock = std::chrono::steady_clock;

bool wait_for(int descriptor, short what, Clock::time_point end) {
  // The maximum delay until a signal that arrives just before poll() is handled.
  constexpr std::chrono::milliseconds kPart{50};
  pollfd watched{descriptor, what, 0};
  while (true) {
    InterruptGuard::throw_if_interrupted();
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    const auto part = std::clamp(left, std::chrono::milliseconds(0), kPart);
    const int happened = ::poll(&watched, 1, static_cast<int>(part.count()));
    if (happened > 0) return true;
    if (happened < 0 && errno != EINTR) return false;
    if (Clock::now() >= end) return false;
  }
}

std::optional<ucred> other_end_of(const Descriptor& socket) {
  ucred other{};
  socklen_t size = sizeof other;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &other, &size) != 0) return std::nullopt;
  return other;
}

}  // namespace

ConnectionEnded::ConnectionEnded()
    : Error(ExitStatus::failed, "the process ended or closed its connection to optrace",
            "If it still runs, report this error.") {}

pid_t ProgramConnection::process() const {
  const std::optional<ucred> other = other_end_of(socket_);
  return other ? other->pid : 0;
}

std::optional<TargetMessage> ProgramConnection::poll() {
  while (!messages_.ready()) {
    std::array<char, 1 << 16> buffer;
    // There is no room for descriptors: the system drops those that a process sends.
    const ssize_t size = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
    if (size <= 0) throw ConnectionEnded();
    messages_.append({buffer.data(), static_cast<std::size_t>(size)});
  }
  return messages_.take();
}

bool ProgramConnection::wait(std::chrono::milliseconds limit) const {
  return wait_for(socket_.get(), POLLIN, Clock::now() + limit);
}

TargetMessage ProgramConnection::receive(const char* kind, std::chrono::milliseconds limit) {
  const Clock::time_point end = Clock::now() + limit;
  std::optional<TargetMessage> message;
  while (!(message = poll())) {
    if (wait_for(socket_.get(), POLLIN, end)) continue;
    throw Error(ExitStatus::failed, fmt::format("a traced process did not respond with '{}'", kind),
                kReport);
  }
  if (message->kind() == message::kProblem) {
    const Error problem = problem_in(*message);
    throw Error(ExitStatus::failed, problem.what(), problem.remedy());
  }
  if (message->kind() != kind) {
    throw Error(ExitStatus::failed,
                fmt::format("a traced process sent '{}' instead of '{}'",
                            displayable(message->kind(), 40), kind),
                kReport);
  }
  return std::move(*message);
}

namespace {

ssize_t send_part(int socket, std::string_view part, std::span<const Descriptor> descriptors) {
  std::vector<int> numbers;
  for (const Descriptor& descriptor : descriptors) numbers.push_back(descriptor.get());
  const std::size_t size = numbers.size() * sizeof(int);
  std::vector<cmsghdr> control(CMSG_SPACE(size) / sizeof(cmsghdr) + 1);
  iovec bytes{const_cast<char*>(part.data()), part.size()};
  msghdr header{};
  header.msg_iov = &bytes;
  header.msg_iovlen = 1;
  if (size != 0) {
    control[0] = {CMSG_LEN(size), SOL_SOCKET, SCM_RIGHTS};
    std::memcpy(CMSG_DATA(control.data()), numbers.data(), size);
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(size);
  }
  return ::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

void ProgramConnection::send(std::string_view line, std::span<const Descriptor> descriptors) {
  const Clock::time_point end = Clock::now() + std::chrono::seconds(10);
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t sent = send_part(socket_.get(), rest, descriptors);
    if (sent >= 0) {
      descriptors = {};
      rest.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_for(socket_.get(), POLLOUT, end)) throw ConnectionEnded();
    } else if (errno != EINTR) {
      throw ConnectionEnded();
    }
  }
}

ProgramListener::ProgramListener(const std::filesystem::path& path)
    : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& name = path.native();
  if (name.size() >= sizeof address.sun_path) {
    throw Error(ExitStatus::usage,
                fmt::format("the path of the temporary folder is too long for a socket: {}", name),
                "Set TMPDIR to a folder with a shorter path, such as /tmp.");
  }
  std::memcpy(address.sun_path, name.data(), name.size());
  constexpr int kBacklog = 128;
  if (!socket_ ||
      ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket_.get(), kBacklog) != 0) {
    throw Error(ExitStatus::failed,
                fmt::format("cannot make the socket {}: {}", name, describe_errno(errno)),
                "Set TMPDIR to a folder on a local disk.");
  }
}

std::optional<ProgramConnection> ProgramListener::accept() const {
  while (true) {
    Descriptor socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) {
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED)
        return std::nullopt;
      throw Error(ExitStatus::failed,
                  fmt::format("cannot listen to the program: {}", describe_errno(errno)),
                  "Close some files or programs and try again.");
    }
    const std::optional<ucred> other = other_end_of(socket);
    if (other && is_our_user(other->uid)) return ProgramConnection(std::move(socket));
  }
}

}  // namespace optrace

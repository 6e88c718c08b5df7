#include "tracer/attach/passed_descriptor.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "tracer/attach/attach_refusal.h"
#include "tracer/attach/attach_target.h"

namespace optrace {
namespace {

/// A message with one descriptor, as it lies in the memory of the process that sends it.
struct Letter {
  msghdr header{};
  iovec content{};
  sockaddr_un address{};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control{};
  char byte = 0;
};
static_assert(sizeof(Letter) <= kPassingBytes);

/// A socket with a name that the system chose, in the abstract namespace of sockets.
class Mailbox {
 public:
  Mailbox() : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    address_.sun_family = AF_UNIX;
    auto* const address = reinterpret_cast<sockaddr*>(&address_);
    constexpr int kOn = 1;
    // A length without a name asks for one.
    opened_ = socket_ && ::bind(socket_.get(), address, sizeof(sa_family_t)) == 0 &&
              ::getsockname(socket_.get(), address, &length_) == 0 &&
              ::setsockopt(socket_.get(), SOL_SOCKET, SO_PASSCRED, &kOn, sizeof kOn) == 0;
  }

  explicit operator bool() const { return opened_; }

  /// Returns the letter that brings a descriptor here, for the address `memory`.
  Letter letter(int descriptor, std::uint64_t memory) const {
    const auto at = [memory](std::size_t offset) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      return reinterpret_cast<void*>(memory + offset);
    };
    Letter letter;
    letter.address = address_;
    letter.content = {at(offsetof(Letter, byte)), 1};
    const cmsghdr control{CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    std::memcpy(letter.control.data(), &control, sizeof control);
    std::memcpy(letter.control.data() + CMSG_LEN(0), &descriptor, sizeof descriptor);
    letter.header.msg_name = at(offsetof(Letter, address));
    letter.header.msg_namelen = length_;
    letter.header.msg_iov = static_cast<iovec*>(at(offsetof(Letter, content)));
    letter.header.msg_iovlen = 1;
    letter.header.msg_control = at(offsetof(Letter, control));
    letter.header.msg_controllen = letter.control.size();
    return letter;
  }

  /// Returns the descriptor that this process has sent; none if it has sent none. Letters of others
  /// are thrown away.
  Descriptor receive(pid_t sender) const {
    while (true) {
      char byte = 0;
      iovec content{&byte, 1};
      alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(ucred))>
          control{};
      msghdr header{};
      header.msg_iov = &content;
      header.msg_iovlen = 1;
      header.msg_control = control.data();
      header.msg_controllen = control.size();
      if (::recvmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
        return Descriptor();
      Descriptor passed;
      ucred from{};
      for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr;
           part = CMSG_NXTHDR(&header, part)) {
        if (part->cmsg_level != SOL_SOCKET) continue;
        int number = -1;
        if (part->cmsg_type == SCM_CREDENTIALS) std::memcpy(&from, CMSG_DATA(part), sizeof from);
        if (part->cmsg_type == SCM_RIGHTS) {
          std::memcpy(&number, CMSG_DATA(part), sizeof number);
          passed = Descriptor(number);
        }
      }
      if (from.pid == sender && passed) return passed;
    }
  }

 private:
  Descriptor socket_;
  sockaddr_un address_{};
  socklen_t length_ = sizeof address_;
  bool opened_ = false;
};

Descriptor sent_descriptor(pid_t process, StoppedThread& thread, int descriptor,
                           std::uint64_t memory) {
  const Mailbox mailbox;
  if (!mailbox) return Descriptor();
  const std::int64_t socket =
      thread.system_call(SYS_socket, {AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0});
  if (socket < 0) return Descriptor();
  const Letter letter = mailbox.letter(descriptor, memory);
  const iovec from{const_cast<Letter*>(&letter), sizeof letter};
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const iovec to{reinterpret_cast<void*>(memory), sizeof letter};
  if (::process_vm_writev(process, &from, 1, &to, 1, 0) == static_cast<ssize_t>(sizeof letter))
    thread.system_call(SYS_sendmsg,
                       {static_cast<std::uint64_t>(socket), memory + offsetof(Letter, header), 0});
  thread.system_call(SYS_close, {static_cast<std::uint64_t>(socket)});
  return mailbox.receive(process);
}

}  // namespace

Descriptor pass_descriptor(const RunningProcess& process, StoppedThread& thread, int descriptor,
                           std::uint64_t memory) {
  Descriptor taken(static_cast<int>(::syscall(SYS_pidfd_getfd, process.handle(), descriptor, 0)));
  if (taken) return taken;
  const int refusal = errno;
  Descriptor sent = sent_descriptor(process.id(), thread, descriptor, memory);
  if (!sent) throw why_not_allowed(process.id(), refusal);
  return sent;
}

}  // namespace optrace

#include "tracer/attach/listening.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "platform/files/descriptor.h"
#include "platform/files/private_folder.h"
#include "platform/process/interrupt.h"

namespace optrace {
namespace {

constexpr const char* kName = "listening";

/// Opens the folder, if it exists and no other user can enter it.
Descriptor open_folder(const std::filesystem::path& path) {
  Descriptor folder(::open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status{};
  if (!folder || ::fstat(folder.get(), &status) != 0) return Descriptor();
  const bool others_can_enter = (status.st_mode & (S_IRWXG | S_IRWXO)) != 0;
  if (status.st_uid != ::geteuid() || others_can_enter) return Descriptor();
  return folder;
}

/// Connects `socket` to the socket `name` in a folder, without waiting. Returns 0 or errno.
int connect_in(const Descriptor& folder, std::string_view name, const Descriptor& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // A path through a descriptor is never too long for an address.
  const std::string path = fmt::format("/proc/self/fd/{}/{}", folder.get(), name);
  if (path.size() >= sizeof address.sun_path) return ENAMETOOLONG;
  std::ranges::copy(path, address.sun_path);
  const auto* const generic = reinterpret_cast<const struct sockaddr*>(&address);
  return ::connect(socket.get(), generic, sizeof address) == 0 ? 0 : errno;
}

Descriptor make_socket(int type) {
  return Descriptor(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// Returns true if the process of a socket is gone. A live process does not notice the test,
/// because its socket refuses one of another type before anything else.
bool is_left_behind(const Descriptor& folder, const char* name) {
  struct stat status{};
  return ::fstatat(folder.get(), name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISSOCK(status.st_mode) &&
         connect_in(folder, name, make_socket(SOCK_DGRAM)) == ECONNREFUSED;
}

/// Removes the sockets of processes that were killed, or ended without their atexit handlers.
void remove_left_behind(const Descriptor& folder) {
  const auto close = [](DIR* entries) { ::closedir(entries); };
  const std::unique_ptr<DIR, decltype(close)> entries(
      ::opendir(fmt::format("/proc/self/fd/{}", folder.get()).c_str()), close);
  if (!entries) return;
  const std::string aside = fmt::format("{}.removed", ::getpid());
  while (const dirent* const entry = ::readdir(entries.get())) {
    InterruptGuard::throw_if_interrupted();
    if (!is_left_behind(folder, entry->d_name)) continue;
    // A process with the same PID may have taken the name meanwhile.
    if (::renameat(folder.get(), entry->d_name, folder.get(), aside.c_str()) != 0) continue;
    if (is_left_behind(folder, aside.c_str()))
      ::unlinkat(folder.get(), aside.c_str(), 0);
    else
      ::renameat(folder.get(), aside.c_str(), folder.get(), entry->d_name);
  }
}

}  // namespace

std::unique_ptr<ProgramConnection> connect_to_listening(pid_t process) {
  const std::filesystem::path cache = cache_folder();
  if (cache.empty()) return nullptr;
  const Descriptor folder = open_folder(cache / kName);
  if (!folder) return nullptr;
  remove_left_behind(folder);
  Descriptor socket = make_socket(SOCK_STREAM);
  if (!socket || connect_in(folder, std::to_string(process), socket) != 0) return nullptr;
  auto connection = std::make_unique<ProgramConnection>(std::move(socket));
  // A container with the same folder has other processes with the same PIDs.
  if (connection->process() != process) return nullptr;
  return connection;
}

}  // namespace optrace

#include "tracer/listening.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "platform/descriptor.h"
#include "platform/error.h"
#include "platform/private_folder.h"

namespace optrace {
namespace {

constexpr const char* kName = "listening";

/// The folder, open, if it is there and nobody else can enter it.
Descriptor open_folder(const std::filesystem::path& path) {
  Descriptor folder(::open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status{};
  if (!folder || ::fstat(folder.get(), &status) != 0) return Descriptor();
  const bool others_can_enter = (status.st_mode & (S_IRWXG | S_IRWXO)) != 0;
  if (status.st_uid != ::geteuid() || others_can_enter) {
    errno = EPERM;
    return Descriptor();
  }
  return folder;
}

}  // namespace

std::filesystem::path listening_folder() {
  const std::filesystem::path cache = cache_folder();
  if (cache.empty()) {
    throw Error(ExitStatus::failed, "there is no folder of this user's for a socket",
                "Set HOME or OPTRACE_CACHE_DIR to one that only this user can write to.");
  }
  const std::filesystem::path path = cache / kName;
  if ((::mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) || !open_folder(path)) {
    throw Error(
        ExitStatus::failed,
        fmt::format("{} can't be used for a socket: {}", path.string(), describe_errno(errno)),
        "It must be a folder of this user's with mode 0700: remove it, and try again.");
  }
  return path;
}

std::unique_ptr<ProgramConnection> connect_to_listening(pid_t process) {
  const std::filesystem::path cache = cache_folder();
  if (cache.empty()) return nullptr;
  const Descriptor folder = open_folder(cache / kName);
  if (!folder) return nullptr;
  // By way of its descriptor a path is never too long for an address.
  const std::string name = fmt::format("/proc/self/fd/{}/{}", folder.get(), process);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::ranges::copy(name, address.sun_path);
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return nullptr;
  auto connection = std::make_unique<ProgramConnection>(std::move(socket));
  // A container that has the same folder has other processes of the same numbers.
  if (connection->process() != process) return nullptr;
  return connection;
}

}  // namespace optrace

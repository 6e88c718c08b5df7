#include "src/standard_output.h"

#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "platform/error.h"

namespace optrace {

bool write_standard_output(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EPIPE) return false;
    if (written < 0 && errno == EBADF) require_standard_output();
    if (written < 0) {
      throw Error(ExitStatus::failed,
                  fmt::format("writing to standard output failed: {}", describe_errno(errno)),
                  "Free some space, or send the output elsewhere.");
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

void require_standard_output() {
  const int flags = ::fcntl(STDOUT_FILENO, F_GETFL);
  if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) {
    throw Error(ExitStatus::usage, "standard output is closed",
                "Send it somewhere, or name a file with -o.");
  }
}

}  // namespace optrace

#include "tracer/connection/sealed_copy.h"

#include <cerrno>
#include <optional>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <xxhash.h>

#include "platform/error.h"
#include "platform/files/whole_file.h"

namespace optrace {
namespace {

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/// `use` is MFD_EXEC or MFD_NOEXEC_SEAL.
Descriptor new_memory(const std::string& name, unsigned int use) {
  // Linux before 6.3 has neither flag; a later one may refuse memory without a flag.
  for (const unsigned int flags : {use, 0U}) {
    Descriptor memory(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
    if (memory || errno != EINVAL) return memory;
  }
  return Descriptor();
}

bool write_all(const Descriptor& file, std::string_view rest) {
  while (!rest.empty()) {
    const ssize_t written = ::write(file.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

Descriptor sealed_copy(const std::filesystem::path& path) {
  const std::optional<std::string> content = read_file(path);
  if (!content) {
    throw Error(ExitStatus::failed, fmt::format("{} can't be read", path.string()),
                "Reinstall optrace.");
  }
  const XXH128_hash_t hash = XXH3_128bits(content->data(), content->size());
  Descriptor memory =
      new_memory(fmt::format("optrace-{:016x}{:016x}", hash.high64, hash.low64), MFD_EXEC);
  constexpr int kSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (!memory || !write_all(memory, *content) || ::fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0) {
    throw Error(ExitStatus::failed,
                fmt::format("cannot copy {} into memory: {}", path.string(), describe_errno(errno)),
                "Close some programs and try again.");
  }
  return memory;
}

Descriptor sealed_region(std::uint64_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {
    throw Error(ExitStatus::failed,
                fmt::format("the limit on the size of files, {} bytes, is less than the {} bytes "
                            "of memory shared with a traced process",
                            limit.rlim_cur, bytes),
                "Raise it (ulimit -f unlimited), or share less (--target-memory, buffer_bytes).");
  }
  Descriptor memory = new_memory("optrace", MFD_NOEXEC_SEAL);
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (!memory || ::ftruncate(memory.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0) {
    throw Error(
        ExitStatus::failed,
        fmt::format("cannot make {} bytes of memory to share with a traced process: {}", bytes,
                    describe_errno(errno)),
        "Close some programs and try again, or share less (--target-memory, buffer_bytes).");
  }
  return memory;
}

}  // namespace optrace

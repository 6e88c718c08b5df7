#include "tracer/collect/shared_region.h"

#include <atomic>
#include <cerrno>
#include <cstring>

#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/error.h"

namespace optrace {
namespace {

constexpr std::uint64_t kMaxRegionBytes = std::uint64_t{1} << 40;

}  // namespace

void refuse_region(const char* reason) {
  throw Error(
      ExitStatus::failed,
      fmt::format("the memory that the traced process shares with optrace is corrupt: {}", reason),
      "Run it again. If it fails again, report it with this line.");
}

SharedRegion::SharedRegion(int descriptor) {
  struct stat status{};
  if (fstat(descriptor, &status) != 0) refuse_region("it has no size");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size < sizeof(recording::RegionHeader) || size > kMaxRegionBytes) refuse_region("its size");
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) {
    throw Error(ExitStatus::failed,
                fmt::format("cannot map the memory that the traced process shares: {}",
                            describe_errno(errno)),
                "Free some memory or address space.");
  }
  base_ = static_cast<std::byte*>(memory);
  size_ = size;
  const recording::RegionHeader& written = header();
  arena_offset_ = written.arena_offset;
  arena_size_ = written.arena_size;
  chunks_offset_ = written.chunks_offset;
  chunk_count_ = written.chunk_count;
  const bool sound =
      std::memcmp(written.magic, recording::kRegionMagic, sizeof written.magic) == 0 &&
      arena_offset_ >= sizeof(recording::RegionHeader) && arena_offset_ <= size &&
      arena_size_ <= size - arena_offset_ && chunks_offset_ >= arena_offset_ + arena_size_ &&
      chunks_offset_ <= size && chunks_offset_ % alignof(recording::Event) == 0 &&
      arena_offset_ % alignof(recording::SectionHeader) == 0 &&
      chunk_count_ <= (size - chunks_offset_) / recording::kChunkSize;
  if (!sound || written.version != recording::kRegionVersion) {
    munmap(memory, size);
    refuse_region("its header");
  }
  if (const std::uint64_t ours = recording::own_pid_namespace();
      ours != 0 && written.pid_namespace == ours)
    std::atomic_ref(header().reader).store(static_cast<std::uint32_t>(::getpid()));
}

SharedRegion::~SharedRegion() {
  munmap(base_, size_);
}

}  // namespace optrace

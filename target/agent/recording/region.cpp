#include "target/agent/recording/region.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/agent/process/pages.h"

namespace optrace::agent {
namespace {

using recording::kChunkSize;
using recording::RegionHeader;
using recording::SectionHeader;

constexpr std::uint64_t kSmallest = 1ULL << 20;
constexpr std::uint64_t kLargest = 1ULL << 40;
// The arena is half of a region: the Python functions that torch.compile calls take more
// than 6 MiB of it.
constexpr std::uint64_t kArenaShare = 2;
constexpr std::uint64_t kHeaderSize = kChunkSize;
static_assert(sizeof(RegionHeader) <= kHeaderSize);

// Address space for regions, two of which are used in turn. A thread delayed in a probe
// since an earlier recording then writes its event to unused memory, not to unmapped memory or the
// next region.
struct Reservation {
  std::uint64_t base = 0;
  std::uint64_t size = 0;
  bool mapped = false;
  Region region;
};

Reservation reservations[2];
std::uint32_t next_reservation = 0;
Region* current = nullptr;
std::uint32_t last_serial = 0;

void* as_memory(std::uint64_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

std::uint64_t reserve(std::uint64_t size, std::uint64_t alignment) {
  void* const memory = mmap(nullptr, size + alignment, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return 0;
  madvise(memory, size + alignment, MADV_DONTDUMP);
  return (reinterpret_cast<std::uint64_t>(memory) + alignment - 1) & ~(alignment - 1);
}

// Initializes the region in new, zero-filled memory.
void lay_out(Region& region, std::uint64_t base, std::uint64_t arena_size, std::uint64_t capacity) {
  region = Region{};
  region.header = static_cast<RegionHeader*>(as_memory(base));
  region.arena = base + kHeaderSize;
  region.arena_size = arena_size;
  region.chunks = region.arena + arena_size;
  region.capacity = static_cast<std::uint32_t>(capacity);
  region.process = getpid();
  region.serial = ++last_serial;
  RegionHeader& header = *region.header;
  header.version = recording::kRegionVersion;
  header.process = static_cast<std::uint32_t>(region.process);
  header.pid_namespace = recording::own_pid_namespace();
  header.size = region.chunks + capacity * kChunkSize - base;
  header.arena_offset = region.arena - base;
  header.arena_size = arena_size;
  header.chunks_offset = region.chunks - base;
  header.chunk_count = region.capacity;
  std::memcpy(header.magic, recording::kRegionMagic, sizeof(header.magic));
}

void make_current(Region* region) {
  __atomic_store_n(&current, region, __ATOMIC_SEQ_CST);
}

void unmap(Reservation& reservation) {
  if (!reservation.mapped) return;
  void* const memory = mmap(as_memory(reservation.base), reservation.size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  // `region` stays unchanged for threads that still use it.
  reservation.mapped = memory == MAP_FAILED;
}

void unmap_all() {
  for (Reservation& reservation : reservations) unmap(reservation);
}

// Maps the file at the reservation's addresses, enlarging the reservation first if necessary.
int map_region(Reservation& reservation, int fd, std::uint64_t size) {
  unmap(reservation);
  if (reservation.size < size) {
    const std::uint64_t base = reserve(size, kChunkSize);
    if (base == 0) return -ENOMEM;
    reservation.base = base;
    reservation.size = size;
  }
  void* const memory = mmap(as_memory(reservation.base), size, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
  if (memory == MAP_FAILED) return -errno;
  madvise(memory, size, MADV_DONTDUMP);
  reservation.mapped = true;
  return 0;
}

}  // namespace

Region* current_region() {
  return __atomic_load_n(&current, __ATOMIC_SEQ_CST);
}

void record_met_module() {
  const Region* const region = current_region();
  if (region != nullptr) __atomic_fetch_add(&region->header->modules_met, 1, __ATOMIC_RELEASE);
}

int use_region(int fd, std::uint64_t bytes) {
  const std::uint64_t size = bytes & ~(kChunkSize - 1);
  if (size < kSmallest || size > kLargest) return -EINVAL;
  struct stat about = {};
  if (fstat(fd, &about) != 0) return -errno;
  // A file that is long enough may be sealed, or longer than this process may make a file.
  if (static_cast<std::uint64_t>(about.st_size) < size &&
      ftruncate(fd, static_cast<off_t>(size)) != 0) {
    return -errno;
  }
  // Where supported: writing beyond the end of a truncated file would kill the process.
  fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK);
  Reservation& reservation = reservations[next_reservation];
  const int result = map_region(reservation, fd, size);
  if (result != 0) return result;
  next_reservation = 1 - next_reservation;
  const std::uint64_t arena = size / kArenaShare & ~(kChunkSize - 1);
  lay_out(reservation.region, reservation.base, arena, (size - arena - kHeaderSize) / kChunkSize);
  make_current(&reservation.region);
  unmap(reservations[next_reservation]);
  return 0;
}

void drop_region() {
  if (current != nullptr) current->process = 0;  // Not owned by any process.
  unmap_all();
}

bool region_is_usable() {
  const Region* const region = current_region();
  return region != nullptr && region->process == getpid();
}

void* begin_section(Region& region, std::uint64_t size) {
  const std::uint64_t room = sizeof(SectionHeader) + (size + 7) / 8 * 8;
  std::uint64_t at = __atomic_load_n(&region.arena_used, __ATOMIC_RELAXED);
  do {
    if (size > region.arena_size || room > region.arena_size - at) {
      __atomic_fetch_add(&region.header->arena_lost, 1, __ATOMIC_RELAXED);
      return nullptr;
    }
  } while (!__atomic_compare_exchange_n(&region.arena_used, &at, at + room, true, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED));
  auto* const header = static_cast<SectionHeader*>(as_memory(region.arena + at));
  header->size = size;
  __atomic_fetch_add(&region.header->arena_used, room, __ATOMIC_RELEASE);
  return header + 1;
}

void complete_section(void* content, recording::SectionKind kind, std::uint32_t round) {
  SectionHeader* const header = static_cast<SectionHeader*>(content) - 1;
  header->round = round;
  __atomic_store_n(reinterpret_cast<std::uint32_t*>(&header->kind),
                   static_cast<std::uint32_t>(kind), __ATOMIC_RELEASE);
}

}  // namespace optrace::agent

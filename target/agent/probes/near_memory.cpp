#include "target/agent/probes/near_memory.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target/agent/process/own_file.h"
#include "target/agent/process/pages.h"

namespace optrace::agent {
namespace {

constexpr std::uint64_t kLowest = 1ULL << 20;         // Well above vm.mmap_min_addr.
constexpr std::uint64_t kHighest = 0x7fff'ffff'0000;  // Below the end of user space.
constexpr std::uint64_t kGrowth = 256ULL << 20;       // Kept free for the heap and a stack to grow.
constexpr int kAttempts = 8;                          // Another thread may take the gap first.

struct Mapping {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  bool heap = false;
  bool stack = false;
};

// Reads /proc/self/maps line by line without using the heap.
class MapsReader {
 public:
  bool next(Mapping& mapping) {
    char line[256];
    if (!read_line(line, sizeof(line))) return false;
    const char* at = line;
    mapping.first = hexadecimal(at);
    if (*at != '-') return false;
    ++at;
    mapping.last = hexadecimal(at);
    mapping.heap = std::strstr(at, "[heap]") != nullptr;
    mapping.stack = std::strstr(at, "[stack]") != nullptr;
    return true;
  }

 private:
  static std::uint64_t hexadecimal(const char*& at) {
    std::uint64_t value = 0;
    for (;; ++at)
      if (*at >= '0' && *at <= '9')
        value = value * 16 + static_cast<std::uint64_t>(*at - '0');
      else if (*at >= 'a' && *at <= 'f')
        value = value * 16 + static_cast<std::uint64_t>(*at - 'a') + 10;
      else
        return value;
  }

  // Reads a line, truncated to the capacity; the rest of a long path is skipped.
  bool read_line(char* line, std::size_t capacity) {
    std::size_t size = 0;
    for (;;) {
      if (at_ == filled_) {
        const ssize_t got = file_ ? read(file_.number(), buffer_, sizeof(buffer_)) : 0;
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at_ = 0;
        filled_ = static_cast<std::size_t>(got);
      }
      const char character = buffer_[at_++];
      if (character == '\n') {
        line[size] = '\0';
        return true;
      }
      if (size + 1 < capacity) line[size++] = character;
    }
  }

  OwnFile file_{"/proc/self/maps", O_RDONLY};
  char buffer_[4096] = {};
  std::size_t at_ = 0;
  std::size_t filled_ = 0;
};

std::uint64_t distance(std::uint64_t a, std::uint64_t b) {
  return a > b ? a - b : b - a;
}

// Returns the aligned address in a free gap that is closest to `goal`, or 0.
std::uint64_t closest_in_gap(std::uint64_t first, std::uint64_t last, std::uint64_t goal,
                             std::uint64_t size, std::uint64_t alignment) {
  const std::uint64_t mask = ~(alignment - 1);
  first = (first + alignment - 1) & mask;
  if (first >= last || last - first < size) return 0;
  const std::uint64_t highest = (last - size) & mask;
  if (goal <= first) return first;
  return goal >= highest ? highest : goal & mask;
}

std::uint64_t find_gap(std::uint64_t lowest, std::uint64_t highest, std::uint64_t goal,
                       std::uint64_t size, std::uint64_t alignment) {
  MapsReader maps;
  std::uint64_t best = 0;
  std::uint64_t gap_first = kLowest;
  bool more = true;
  while (more) {
    Mapping mapping;
    more = maps.next(mapping);
    std::uint64_t gap_last = more && mapping.first < kHighest ? mapping.first : kHighest;
    if (mapping.stack) gap_last = gap_last > kGrowth ? gap_last - kGrowth : 0;
    const std::uint64_t place =
        closest_in_gap(gap_first > lowest ? gap_first : lowest,
                       gap_last < highest ? gap_last : highest, goal, size, alignment);
    if (place != 0 && (best == 0 || distance(place, goal) < distance(best, goal))) best = place;
    if (more && mapping.last > gap_first) gap_first = mapping.last + (mapping.heap ? kGrowth : 0);
  }
  return best;
}

std::uint8_t* map_aligned(std::uint64_t lowest, std::uint64_t highest, std::uint64_t goal,
                          std::uint64_t size, std::uint64_t alignment) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::uint64_t place = find_gap(lowest, highest, goal, size, alignment);
    if (place == 0) return nullptr;
    void* const hint = reinterpret_cast<void*>(place);  // NOLINT(performance-no-int-to-ptr)
    void* const memory = mmap(hint, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory == hint) return static_cast<std::uint8_t*>(memory);
    if (memory != MAP_FAILED) {
      // A kernel before 4.17 ignores the flag and takes the address as a hint.
      munmap(memory, size);
    } else if (errno != EEXIST) {
      return nullptr;
    }
  }
  return nullptr;
}

}  // namespace

std::uint8_t* map_between(std::uint64_t lowest, std::uint64_t highest, std::uint64_t goal,
                          std::uint64_t size) {
  std::uint8_t* memory = nullptr;
  if (size > kWorthHugePages) {
    memory = map_aligned(lowest, highest, goal, page_ceiling(size), kHugePage);
    if (memory != nullptr) madvise(memory, page_ceiling(size), MADV_HUGEPAGE);
  }
  return memory != nullptr ? memory : map_aligned(lowest, highest, goal, page_ceiling(size), kPage);
}

}  // namespace optrace::agent

// Stress test of the agent for ThreadSanitizer. Threads record, note, keep op records, pause, end
// and are replaced by new ones, while a reader empties the region and returns chunks, and
// recordings start and stop.
//
// The agent's sources are compiled into this program and instrumented. ThreadSanitizer can't
// instrument the assembly of the record routine, so events are recorded through record_event(),
// which takes slots in the same way and shares all other code with the routine. The reader accesses
// the region through the agent's own mapping: a second mapping would have other addresses.
//
//   agent_stress [SECONDS]
//
// Prints the numbers of recorded events. Exits with 1 if events are missing that were not counted
// as lost.

#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/agent/recording/event_buffer.h"
#include "target/agent/recording/region.h"
#include "target/interface/agent.h"

namespace {

using namespace optrace;
using agent::Region;
using recording::ChunkState;
using recording::Event;

constexpr std::uint64_t kRegionSize = 1ULL << 20;  // 11 chunks: fewer than threads.
constexpr int kThreads = 16;
constexpr std::uint64_t kEventsPerThread = 20'000;

std::uint32_t number_of(ChunkState state) {
  return static_cast<std::uint32_t>(state);
}

// Empties a region like the command's reader.
class Reader {
 public:
  explicit Reader(const Region& region) : region_(region), read_(region.capacity) {}

  void drain() {
    recording::RegionHeader& header = *region_.header;
    std::atomic_ref(header.heartbeat).fetch_add(1);
    read_arena();
    for (std::uint32_t i = 0; i < region_.capacity; ++i) {
      drain_chunk(i);
    }
  }

  std::uint64_t events() const { return events_; }
  std::uint64_t lost() const { return lost_ + std::atomic_ref(region_.header->lost).load(); }
  std::uint64_t sections() const { return sections_; }

 private:
  void drain_chunk(std::uint32_t index) {
    recording::ChunkHeader* const chunk = region_.chunk(index);
    const std::uint32_t state = std::atomic_ref(chunk->state).load();
    Event* const slots = agent::events_of(chunk);
    std::uint32_t& at = read_[index];
    while (at < recording::kEventsPerChunk && std::atomic_ref(slots[at].ticks).load() != 0) {
      lost_ += at == 0 ? chunk->lost : 0;
      const Event event = slots[at++];
      checksum_ += event.stack_pointer + event.return_address + event.line + chunk->order;
      events_ += event.id == recording::kOpBegin ? 1 : 0;
    }
    if (state == number_of(ChunkState::sealed)) {
      at = 0;
      std::memset(static_cast<void*>(slots), 0, recording::kChunkSize - sizeof(*chunk));
      std::atomic_ref(chunk->state).store(number_of(ChunkState::free));
      std::atomic_ref(region_.header->freed).fetch_add(1);
      syscall(SYS_futex, &region_.header->freed, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    }
  }

  void read_arena() {
    const std::uint64_t used = std::atomic_ref(region_.header->arena_used).load();
    while (arena_at_ < used) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      auto& section = *reinterpret_cast<recording::SectionHeader*>(region_.arena + arena_at_);
      if (static_cast<std::uint32_t>(std::atomic_ref(section.kind).load()) == 0) {
        return;
      }
      const auto* const content = reinterpret_cast<const unsigned char*>(&section + 1);
      for (std::uint64_t i = 0; i < section.size; ++i) {
        checksum_ += content[i];
      }
      ++sections_;
      arena_at_ += sizeof(section) + (section.size + 7) / 8 * 8;
    }
  }

  const Region& region_;
  std::vector<std::uint32_t> read_;  // Number of events read, per chunk.
  std::uint64_t arena_at_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t lost_ = 0;
  std::uint64_t sections_ = 0;
  std::uint64_t checksum_ = 0;
};

void check(bool good, const char* what) {
  if (!good) {
    std::fprintf(stderr, "agent_stress: %s\n", what);
    std::exit(1);
  }
}

std::atomic<std::uint32_t> next_record = 1;

// Records kEventsPerThread events. Now and then pauses, keeps a record, notes and serves.
void work(int number) {
  const std::string text = "{\"op\": \"" + std::to_string(number) + "\"}";
  for (std::uint64_t i = 0; i < kEventsPerThread; ++i) {
    agent::record_event(agent::running_round(), recording::kOpBegin, 0, i, i);
    if (i % 512 == 0) {
      const std::uint32_t paused = optrace_agent_pause_thread();
      optrace_agent_keep_record(next_record.fetch_add(1), text.data(), text.size());
      check(agent::take_slot(agent::running_round()) == nullptr, "a paused thread records");
      optrace_agent_resume_thread(paused);
      optrace_agent_note(recording::kOpEnd, 0, i, i);
      optrace_agent_serve();
    }
  }
}

// Repeats `call` while it returns -EBUSY because another thread is in optrace_agent_serve().
int when_free(int (*call)()) {
  int result = call();
  while (result == -EBUSY) {
    std::this_thread::yield();
    result = call();
  }
  return result;
}

void run_threads() {
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back(work, t);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

// One recording of all threads, which is read while they run.
void record_shared() {
  const int fd = memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  check(optrace_agent_share(fd, kRegionSize) == 0, "the region can't be shared");
  close(fd);
  Reader reader(*agent::current_region());
  std::atomic<bool> over = false;
  std::thread reading([&] {
    while (!over) {
      reader.drain();
    }
  });
  check(optrace_agent_start() == 0, "it does not start");
  run_threads();
  check(when_free(optrace_agent_stop) == 0, "it does not stop");
  over = true;
  reading.join();
  reader.drain();
  const std::uint64_t expected = kThreads * kEventsPerThread;
  const std::uint64_t lost = reader.lost();
  std::printf("shared: %llu of %llu events, %llu lost, %llu sections\n",
              static_cast<unsigned long long>(reader.events()),
              static_cast<unsigned long long>(expected), static_cast<unsigned long long>(lost),
              static_cast<unsigned long long>(reader.sections()));
  check(reader.events() <= expected && reader.events() + lost >= expected,
        "events are missing that were not counted as lost");
}

// Recordings that start and stop while the threads keep running.
void record_in_rounds() {
  const int fd = memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  check(optrace_agent_share(fd, kRegionSize) == 0, "the region can't be shared");
  close(fd);
  Reader reader(*agent::current_region());
  std::atomic<bool> over = false;
  std::thread reading([&] {
    while (!over) {
      reader.drain();
    }
  });
  std::thread working(run_threads);
  std::atomic_ref(agent::current_region()->header->stop).store(0);
  for (int i = 0; i < 50; ++i) {
    check(when_free(optrace_agent_start) == 0, "it does not start");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    check(when_free(optrace_agent_stop) == 0, "it does not stop");
  }
  working.join();
  over = true;
  reading.join();
  std::printf("rounds: %llu events\n", static_cast<unsigned long long>(reader.events()));
}

}  // namespace

int main(int count, char** arguments) {
  const double seconds = count > 1 ? std::atof(arguments[1]) : 10;
  const auto begin = std::chrono::steady_clock::now();
  do {
    record_shared();
    record_in_rounds();
  } while (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() <
           seconds);
}

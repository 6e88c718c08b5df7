#include "target/interface/agent.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <dlfcn.h>
#include <fmt/core.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/files/private_folder.h"
#include "target/agent/probes/plan_reader.h"
#include "target/interface/recording_format.h"
#include "tests/agent/loaded_agent.h"
#include "tests/agent/plan_builder.h"
#include "tests/agent/raw_recording.h"
#include "tests/agent/region_reader.h"
#include "tests/unit/sanitized.h"

using optrace::test::agent;
using optrace::test::open_library;
using optrace::test::PlanBuilder;
using optrace::test::RawRecording;
using optrace::test::RegionReader;
using optrace::test::symbol;
namespace plan = optrace::plan;
namespace recording = optrace::recording;

namespace {

using IntFunction = int(int);
using LongFunction = long(long);
using VoidFunction = void();

// The library of functions whose bytes are known (tests/agent/probe_targets.cpp).
struct Targets {
  void* library = open_library(OPTRACE_PROBE_TARGETS);
  IntFunction* plain = symbol<IntFunction>(library, "target_plain");
  VoidFunction* nothing = symbol<VoidFunction>(library, "target_nothing");
  IntFunction* rip_relative = symbol<IntFunction>(library, "target_rip_relative");
  IntFunction* immediate = symbol<IntFunction>(library, "target_rip_relative_immediate");
  IntFunction* call_first = symbol<IntFunction>(library, "target_call_first");
  IntFunction* jump_first = symbol<IntFunction>(library, "target_jump_first");
  IntFunction* branch_first = symbol<IntFunction>(library, "target_branch_first");
  void* branch_first_zero = symbol<void>(library, "target_branch_first_zero");
  IntFunction* landing_pad = symbol<IntFunction>(library, "target_landing_pad");
  LongFunction* own_entry_start = symbol<LongFunction>(library, "target_own_entry_start");
  LongFunction* own_entry = symbol<LongFunction>(library, "target_own_entry");
  VoidFunction* one_byte = symbol<VoidFunction>(library, "target_one_byte");
  IntFunction* calls_thrower = symbol<IntFunction>(library, "target_calls_thrower");
  int (*calls_back)(VoidFunction*) = symbol<int(VoidFunction*)>(library, "calls_back");
  int* value = symbol<int>(library, "target_value");
  int* sum = symbol<int>(library, "target_sum");
  long (*registers_changed_by)(VoidFunction*, unsigned long) =
      symbol<long(VoidFunction*, unsigned long)>(library, "registers_changed_by");
};

const Targets& targets() {
  static const Targets loaded;
  return loaded;
}

template <typename T>
const void* as_pointer(T* function) {
  return reinterpret_cast<const void*>(function);
}

std::uint64_t as_number(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

plan::Fixup relative(const void* target, std::uint16_t offset, std::uint8_t addend = 0) {
  return {as_number(target), offset, plan::FixupKind::relative32, addend, 0};
}

// Returns a plan with all targets, sorted by address and displaced as by the planner.
PlanBuilder all_targets() {
  const Targets& t = targets();
  PlanBuilder builder(as_pointer(t.plain));
  const auto call_first = as_pointer(t.call_first);
  builder.add_plain(as_pointer(t.plain), 5)
      .add_plain(as_pointer(t.nothing), 5)
      .add(as_pointer(t.rip_relative), plan::Patch::jump, 6, {0x8b, 0x05, 0, 0, 0, 0},
           {relative(t.value, 2)})
      .add(as_pointer(t.immediate), plan::Patch::jump, 7, {0x83, 0x05, 0, 0, 0, 0, 3},
           {relative(t.sum, 2, 1)})
      // push [rip + 5]; jmp target_plain; the original return address.
      .add(call_first, plan::Patch::jump, 5,
           {0xff, 0x35, 5, 0, 0, 0, 0xe9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
           {relative(as_pointer(t.plain), 7),
            {as_number(call_first) + 5, 11, plan::FixupKind::absolute64, 0, 0}},
           true)
      .add(as_pointer(t.jump_first), plan::Patch::jump, 5, {0xe9, 0, 0, 0, 0},
           {relative(as_pointer(t.plain), 1)}, true)
      // test edi, edi; jz target_branch_first_zero; mov eax, edi
      .add(as_pointer(t.branch_first), plan::Patch::jump, 6,
           {0x85, 0xff, 0x0f, 0x84, 0, 0, 0, 0, 0x89, 0xf8}, {relative(t.branch_first_zero, 4)})
      .add_plain(as_pointer(t.landing_pad), 6)
      .add_plain(as_pointer(t.own_entry), 5)
      .add(as_pointer(t.one_byte), plan::Patch::trap_only, 1, {0xc3}, {}, true)
      .add_plain(as_pointer(t.calls_thrower), 5);
  return builder;
}

// Returns the executable segment that contains `address`, in place.
std::string_view live_text_of(const void* address) {
  struct Search {
    std::uint64_t address;
    std::string_view text;
  } search{as_number(address), {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* argument) {
        auto& sought = *static_cast<Search*>(argument);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = info->dlpi_phdr[i];
          const std::uint64_t first = info->dlpi_addr + segment.p_vaddr;
          if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0 &&
              sought.address >= first && sought.address < first + segment.p_memsz) {
            sought.text = {reinterpret_cast<const char*>(first), segment.p_memsz};
          }
        }
        return 0;
      },
      &search);
  return search.text;
}

std::string text_of(const void* address) {
  return std::string(live_text_of(address));
}

// The region of the last start_recording(); -1: none.
int recorded_file = -1;

// Starts a recording into a region that nothing reads while the test runs.
int start_recording(std::uint64_t size = std::uint64_t{64} << 20) {
  close(recorded_file);
  recorded_file = memfd_create("recording", MFD_CLOEXEC);
  REQUIRE(recorded_file >= 0);
  const int shared = agent().share(recorded_file, size);
  return shared != 0 ? shared : agent().start();
}

// Returns the recording of the last start_recording(), which must be over.
RawRecording recorded() {
  const auto size = static_cast<std::size_t>(lseek(recorded_file, 0, SEEK_END));
  void* const memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, recorded_file, 0);
  REQUIRE(memory != MAP_FAILED);
  RawRecording raw({static_cast<const char*>(memory), size});
  munmap(memory, size);
  return raw;
}

// Stops recording and removes all probes when destroyed, so also if a test fails.
struct ProbesGoAtTheEnd {
  ~ProbesGoAtTheEnd() {
    agent().stop();
    agent().remove();
    agent().share(-1, 0);
    close(std::exchange(recorded_file, -1));
  }
};

class PlanFile {
 public:
  explicit PlanFile(const PlanBuilder& builder) : PlanFile(builder.bytes()) {}
  explicit PlanFile(const std::vector<std::uint8_t>& bytes) : path_(folder_.path() / "plan") {
    PlanBuilder::save(path_, bytes);
  }
  const char* path() const { return path_.c_str(); }

 private:
  optrace::PrivateFolder folder_;
  std::filesystem::path path_;
};

// Calls every target once (branch_first twice) and checks its result.
void call_all_targets() {
  const Targets& t = targets();
  CHECK(t.plain(1) == 2);
  t.nothing();
  CHECK(t.rip_relative(0) == 4711);
  const int before = *t.sum;
  CHECK(t.immediate(0) == before + 3);
  CHECK(t.call_first(1) == 102);
  CHECK(t.jump_first(5) == 6);
  CHECK(t.branch_first(0) == 7);
  CHECK(t.branch_first(9) == 9);
  CHECK(t.landing_pad(1) == 3);
  CHECK(t.own_entry_start(10) == 10 * 11 / 2 + 9);
  t.one_byte();
}

// Returns indexes into all_targets(), in the order of the entries in call_all_targets().
std::vector<std::uint32_t> entries_of_all_targets() {
  std::vector<std::uint32_t> expected{0, 1, 2, 3, 4, 0, 5, 0, 6, 6, 7};
  expected.insert(expected.end(), 10, 8);
  expected.push_back(9);
  return expected;
}

std::vector<std::uint32_t> ids_of(const RawRecording& raw) {
  std::vector<std::uint32_t> ids;
  const std::uint32_t first = raw.plans.at(0).range.first_id;
  for (const recording::Event& event : raw.threads.at(0).events) {
    ids.push_back(event.id - first);
  }
  return ids;
}

}  // namespace

TEST_CASE("the agent needs no more than libc and libgcc_s") {
  const std::string command = fmt::format("readelf -d {} | grep NEEDED", OPTRACE_AGENT_LIBRARY);
  FILE* const output = popen(command.c_str(), "r");
  REQUIRE(output != nullptr);
  char line[512];
  std::set<std::string> needed;
  while (fgets(line, sizeof(line), output) != nullptr) {
    const std::string text(line);
    const std::size_t open = text.find('[');
    needed.insert(text.substr(open + 1, text.find(']') - open - 1));
  }
  pclose(output);
  needed.erase("ld-linux-x86-64.so.2");
  CHECK(needed == std::set<std::string>{"libc.so.6", "libgcc_s.so.1"});
}

TEST_CASE("both kinds of probe record every entry and change nothing else") {
  const bool use_jumps = GENERATE(false, true);
  CAPTURE(use_jumps);
  const ProbesGoAtTheEnd guard;
  const std::string text_before = text_of(as_pointer(targets().plain));
  REQUIRE(!text_before.empty());
  const PlanBuilder builder = all_targets();
  const PlanFile file(builder);
  REQUIRE(agent().place(file.path(), use_jumps ? 1 : 0) == static_cast<int>(builder.probes.size()));
  CHECK(agent().counters().jumps == (use_jumps ? builder.probes.size() - 1 : 0));
  CHECK(agent().counters().traps == (use_jumps ? 1 : builder.probes.size()));
  CHECK(agent().place(file.path(), 0) == -EEXIST);
  CHECK(text_of(as_pointer(targets().plain)) != text_before);

  call_all_targets();  // Must not be recorded.
  REQUIRE(start_recording() == 0);
  CHECK(agent().start() == -EALREADY);
  call_all_targets();
  REQUIRE(agent().stop() == 0);
  CHECK(agent().stop() == -EALREADY);
  call_all_targets();

  const RawRecording raw = recorded();
  REQUIRE(raw.plans.size() == 1);
  CHECK(raw.plans[0].path == file.path());
  CHECK(raw.plans[0].range.placed == builder.probes.size());
  // Modules are listed when recording begins and when it ends.
  CHECK(std::count(raw.modules.begin(), raw.modules.end(), builder.path) == 2);
  REQUIRE(raw.threads.size() == 1);
  CHECK(raw.threads[0].id == static_cast<std::uint64_t>(gettid()));
  CHECK(raw.threads[0].lost == 0);
  CHECK(ids_of(raw) == entries_of_all_targets());

  const auto& events = raw.threads[0].events;
  for (std::size_t i = 0; i < events.size(); ++i) {
    CHECK(events[i].ticks >= raw.header.start_ticks);
    CHECK(events[i].ticks <= raw.header.stop_ticks);
    CHECK((i == 0 || events[i].ticks >= events[i - 1].ticks));
  }
  // target_call_first calls target_plain: the return address is after the original call.
  CHECK(events[5].return_address == as_number(as_pointer(targets().call_first)) + 5);
  CHECK(events[5].stack_pointer == events[4].stack_pointer - 8);
  // target_jump_first makes a tail call: same slot, same return address.
  CHECK(events[7].return_address == events[6].return_address);
  CHECK(events[7].stack_pointer == events[6].stack_pointer);

  REQUIRE(agent().remove() == 0);
  CHECK(text_of(as_pointer(targets().plain)) == text_before);
  call_all_targets();
}

TEST_CASE("a probe preserves every register, the red zone and the flags") {
  const bool use_jumps = GENERATE(false, true);
  const bool recording = GENERATE(false, true);
  const auto kind = GENERATE(plan::ProbeKind::entry, plan::ProbeKind::entry_with_arguments,
                             plan::return_kind(8), plan::ProbeKind::returned_pointer);
  CAPTURE(use_jumps, recording, kind);
  const ProbesGoAtTheEnd guard;
  PlanBuilder builder = all_targets();
  for (plan::Probe& probe : builder.probes) {
    probe.kind = kind;
  }
  const PlanFile file(builder);
  REQUIRE(agent().place(file.path(), use_jumps ? 1 : 0) > 0);
  if (recording) {
    REQUIRE(start_recording() == 0);
  }
  // Every combination of CF PF AF ZF SF OF, often enough to fill several chunks.
  for (int round = 0; round < 100; ++round) {
    for (unsigned long flags = 0; flags < 64; ++flags) {
      const unsigned long value = 0x202 | (flags & 1) | (flags & 2) << 1 | (flags & 4) << 2 |
                                  (flags & 8) << 3 | (flags & 16) << 3 | (flags & 32) << 6;
      REQUIRE(targets().registers_changed_by(targets().nothing, value) == 0);
    }
  }
}

TEST_CASE("a probe that is to record arguments does, and no other") {
  const bool use_jumps = GENERATE(false, true);
  CAPTURE(use_jumps);
  const ProbesGoAtTheEnd guard;
  PlanBuilder builder = all_targets();
  builder.probes[0].kind = plan::ProbeKind::entry_with_arguments;  // target_plain
  const PlanFile file(builder);
  REQUIRE(agent().place(file.path(), use_jumps ? 1 : 0) > 0);
  auto* const plain = symbol<int(int, const void*)>(targets().library, "target_plain");
  REQUIRE(start_recording() == 0);
  constexpr int kCalls = 3000;  // Several chunks.
  for (int i = 0; i < kCalls; ++i) {
    REQUIRE(plain(i, &builder) == i + 1);
    targets().nothing();
  }
  REQUIRE(agent().stop() == 0);
  const RawRecording raw = recorded();
  const auto own = std::find_if(raw.plans.begin(), raw.plans.end(),
                                [&](const auto& plan) { return plan.path == file.path(); });
  REQUIRE(own != raw.plans.end());
  const std::uint32_t first = own->range.first_id;
  const auto& events = raw.threads.at(0).events;
  REQUIRE(events.size() == 3UL * kCalls);
  for (std::size_t i = 0; i < events.size(); i += 3) {
    REQUIRE(events[i].id == first);
    REQUIRE(events[i + 1].id == recording::kArguments);
    REQUIRE(events[i + 1].line == static_cast<std::uint32_t>(events[i].stack_pointer));
    REQUIRE(static_cast<std::uint32_t>(events[i + 1].stack_pointer) == i / 3);  // edi
    REQUIRE(events[i + 1].return_address == as_number(&builder));
    REQUIRE(events[i + 1].ticks >= events[i].ticks);
    REQUIRE(events[i + 2].id == first + 1);
  }
}

TEST_CASE("a return probe records what the call returned, up to the limit") {
  const bool use_jumps = GENERATE(false, true);
  const std::uint32_t limit = GENERATE(0U, 3U);
  CAPTURE(use_jumps, limit);
  const ProbesGoAtTheEnd guard;
  const std::string text_before = text_of(as_pointer(targets().plain));
  const auto* const call = static_cast<const std::uint8_t*>(as_pointer(targets().call_first));
  PlanBuilder builder = all_targets();
  builder.add_plain(call + 5, 3, plan::Patch::trap_only);  // addl $100, %eax
  builder.probes.back().kind = plan::return_kind(4);
  const PlanFile file(builder);
  REQUIRE(agent().return_limit(limit) == 0);
  REQUIRE(agent().place(file.path(), use_jumps ? 1 : 0) == static_cast<int>(builder.probes.size()));
  targets().call_first(0);  // Must not be recorded.
  REQUIRE(start_recording() == 0);
  constexpr int kCalls = 10;
  for (int i = 0; i < kCalls; ++i) {
    REQUIRE(targets().call_first(i) == i + 101);
  }
  REQUIRE(agent().stop() == 0);
  const RawRecording raw = recorded();
  std::vector<std::uint64_t> values;
  std::uint64_t slot = 0;
  for (const recording::Event& event : raw.threads.at(0).events) {
    if (event.id != recording::kReturnedValue) {
      slot = event.stack_pointer;  // Of target_plain, which was entered last.
      continue;
    }
    CHECK(event.stack_pointer == slot);
    CHECK(event.line - raw.plans.at(0).range.first_id < builder.probes.size());
    values.push_back(event.return_address & 0xFFFF'FFFF);
  }
  REQUIRE(values.size() == (limit == 0 ? kCalls : limit));
  for (std::size_t i = 0; i < values.size(); ++i) {
    CHECK(values[i] == i + 1);
  }
  CHECK((*(call + 5) == 0xcc) == (limit == 0));
  REQUIRE(agent().remove() == 0);
  CHECK(text_of(as_pointer(targets().plain)) == text_before);
  REQUIRE(agent().return_limit(0) == 0);
}

namespace {

// Calls it with so many bytes more of the stack in use.
[[gnu::noinline]] int call_below(std::size_t bytes, IntFunction* function, int argument) {
  auto* const below = static_cast<volatile char*>(__builtin_alloca(bytes));
  below[0] = 1;
  return function(argument) + below[0] - 1;
}

}  // namespace

TEST_CASE("a return probe records again where calls come by another path") {
  const bool is_jump = GENERATE(false, true);
  constexpr std::uint32_t kLimit = 3;
  constexpr int kCalls = 5;
  CAPTURE(is_jump);
  const ProbesGoAtTheEnd guard;
  const auto* const call = static_cast<const std::uint8_t*>(as_pointer(targets().call_first));
  PlanBuilder builder = all_targets();
  builder.add_plain(call + 5, is_jump ? 5 : 3,
                    is_jump ? plan::Patch::jump : plan::Patch::trap_only);
  builder.probes.back().kind = plan::return_kind(4);
  const PlanFile file(builder);
  REQUIRE(agent().return_limit(kLimit) == 0);
  REQUIRE(agent().place(file.path(), 1) == static_cast<int>(builder.probes.size()));
  REQUIRE(start_recording() == 0);
  for (std::size_t path = 1; path <= 6; ++path) {
    for (int i = 0; i < kCalls; ++i) {
      REQUIRE(call_below(path * 256, targets().call_first, i) == i + 101);
    }
  }
  REQUIRE(agent().stop() == 0);
  const RawRecording raw = recorded();
  std::map<std::uint64_t, std::uint32_t> values;
  for (const recording::Event& event : raw.threads.at(0).events) {
    if (event.id == recording::kReturnedValue) ++values[event.stack_pointer];
  }
  // An int3 is removed when it has been hit in vain as often as the limit.
  CHECK(values.size() == (is_jump ? 4U : 2U));
  for (const auto& [slot, count] : values) CHECK(count == kLimit);
  REQUIRE(agent().remove() == 0);
  REQUIRE(agent().return_limit(0) == 0);
}

TEST_CASE("the initial stack is the live one") {
  const ProbesGoAtTheEnd guard;
  REQUIRE(start_recording() == 0);
  REQUIRE(agent().stop() == 0);
  const RawRecording raw = recorded();
  REQUIRE(raw.threads.size() == 1);
  const auto& frames = raw.threads[0].initial;
  REQUIRE(frames.size() > 3);
  // The innermost frame is this test's function, which calls the agent.
  Dl_info info{};
  REQUIRE(dladdr(reinterpret_cast<void*>(frames[0].instruction), &info) != 0);
  CHECK(std::string(info.dli_fname).find("target_tests") != std::string::npos);
  for (std::size_t i = 1; i < frames.size(); ++i) {
    CHECK(frames[i].stack_pointer > frames[i - 1].stack_pointer);
    CHECK(frames[i].instruction == frames[i - 1].return_address);
  }
}

TEST_CASE("64 threads record each its own events, also those that have ended") {
  const bool use_jumps = GENERATE(false, true);
  CAPTURE(use_jumps);
  const int calls = use_jumps ? 5000 : 200;  // Several chunks with jumps.
  const ProbesGoAtTheEnd guard;
  const PlanFile file(all_targets());
  REQUIRE(agent().place(file.path(), use_jumps ? 1 : 0) > 0);
  REQUIRE(start_recording() == 0);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  threads.reserve(64);
  for (int t = 0; t < 64; ++t) {
    threads.emplace_back([&wrong, calls] {
      for (int i = 0; i < calls; ++i) {
        wrong += targets().call_first(i) == i + 101 ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  REQUIRE(agent().stop() == 0);
  CHECK(wrong == 0);
  const RawRecording raw = recorded();
  std::size_t full = 0;
  for (const auto& thread : raw.threads) {
    CHECK(thread.lost == 0);
    if (thread.events.empty()) {
      continue;  // The thread that started the recording.
    }
    REQUIRE(thread.events.size() == static_cast<std::size_t>(calls) * 2);
    ++full;
    for (std::size_t i = 0; i < thread.events.size(); ++i) {
      REQUIRE(thread.events[i].id - raw.plans[0].range.first_id == (i % 2 == 0 ? 4 : 0));
    }
  }
  CHECK(full == 64);
}

TEST_CASE("int3s become jumps once no other thread can be in their way") {
  constexpr int kWhenSafe = 2;
  const ProbesGoAtTheEnd guard;
  const std::string text_before = text_of(as_pointer(targets().plain));
  const PlanFile file(all_targets());
  // The other thread: 0 calls without pause, 1 sleeps between calls, 2 blocks SIGTRAP and sleeps.
  const auto kind = GENERATE(0, 1, 2);
  std::atomic<bool> over = false;
  std::atomic<bool> ready = false;
  std::atomic<int> wrong = 0;
  std::thread other([&] {
    if (kind == 2) {
      sigset_t trap;
      sigemptyset(&trap);
      sigaddset(&trap, SIGTRAP);
      pthread_sigmask(SIG_BLOCK, &trap, nullptr);
    }
    ready = true;
    while (!over.load(std::memory_order_relaxed)) {
      if (kind != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (kind != 2) wrong += targets().plain(1) == 2 && targets().call_first(1) == 102 ? 0 : 1;
    }
  });
  while (!ready) std::this_thread::yield();
  const int placed = agent().place(file.path(), kWhenSafe);
  const auto counters = agent().counters();
  if (placed > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    CHECK(agent().remove() == 0);
  }
  over = true;
  other.join();
  CHECK(placed == (kind == 2 ? -EPERM : 11));
  if (kind == 0) CHECK(counters.jumps == 0);  // The thread is never seen at a safe place.
  if (kind == 1) CHECK(counters.jumps > 5);
  CHECK(wrong == 0);
  CHECK(text_of(as_pointer(targets().plain)) == text_before);
}

TEST_CASE("placing waits for a thread that blocks SIGTRAP for a moment") {
  const ProbesGoAtTheEnd guard;
  const PlanFile file(all_targets());
  std::atomic<bool> blocked = false;
  std::thread other([&blocked] {
    sigset_t trap;
    sigemptyset(&trap);
    sigaddset(&trap, SIGTRAP);
    pthread_sigmask(SIG_BLOCK, &trap, nullptr);
    blocked = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
  });
  while (!blocked) std::this_thread::yield();
  const int placed = agent().place(file.path(), 0);
  other.join();
  CHECK(placed == 11);
}

TEST_CASE("probes come and go while threads run through them") {
  const ProbesGoAtTheEnd guard;
  const std::string text_before = text_of(as_pointer(targets().plain));
  const PlanFile file(all_targets());
  std::atomic<bool> over = false;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&over, &wrong] {
      while (!over.load(std::memory_order_relaxed)) {
        wrong += targets().plain(1) == 2 && targets().call_first(1) == 102 &&
                         targets().rip_relative(0) == 4711 &&
                         targets().own_entry_start(4) == 4 * 5 / 2 + 3
                     ? 0
                     : 1;
        targets().one_byte();
      }
    });
  }
  std::uint64_t events = 0;
  for (int i = 0; i < 40; ++i) {
    REQUIRE(agent().place(file.path(), 0) == 11);
    REQUIRE(start_recording() == 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    REQUIRE(agent().stop() == 0);
    REQUIRE(agent().remove() == 0);
    events += recorded().event_count();
  }
  over = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(wrong == 0);
  CHECK(events > 1000);
  CHECK(text_of(as_pointer(targets().plain)) == text_before);
}

TEST_CASE("exceptions pass through probed functions") {
  const bool use_jumps = GENERATE(false, true);
  CAPTURE(use_jumps);
  const ProbesGoAtTheEnd guard;
  const PlanFile file(all_targets());
  REQUIRE(agent().place(file.path(), use_jumps ? 1 : 0) > 0);
  REQUIRE(start_recording() == 0);
  int caught = 0;
  for (int i = 0; i < 1000; ++i) {
    try {
      targets().calls_thrower(1);
    } catch (const std::runtime_error& error) {
      caught += std::string(error.what()) == "positive" ? 1 : 0;
    }
  }
  REQUIRE(agent().stop() == 0);
  CHECK(caught == 1000);
  CHECK(recorded().event_count() == 1000);
}

TEST_CASE("a forked child records nothing and has no recording") {
  const bool past_libc = GENERATE(false, true);
  CAPTURE(past_libc);
  const ProbesGoAtTheEnd guard;
  const std::string text_before = text_of(as_pointer(targets().plain));
  const PlanFile file(all_targets());
  REQUIRE(agent().place(file.path(), 1) > 0);
  REQUIRE(start_recording() == 0);
  targets().plain(1);
  const pid_t child = past_libc ? static_cast<pid_t>(syscall(SYS_fork)) : fork();
  if (child == 0) {
    bool good = targets().plain(1) == 2 && agent().stop() == -EALREADY &&
                agent().start() == -ENODATA && agent().remove() == 0;
    good = good && text_of(as_pointer(targets().plain)) == text_before;
    _exit(good && targets().plain(1) == 2 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  targets().plain(1);
  REQUIRE(agent().stop() == 0);
  CHECK(recorded().event_count() == 2);
}

TEST_CASE("a child that is forked while probes come and go has none of them") {
  const ProbesGoAtTheEnd guard;
  const std::string_view text = live_text_of(as_pointer(targets().plain));
  const std::string text_before(text);
  const PlanFile file(all_targets());
  const int use_jumps = GENERATE(0, 2);
  std::atomic<bool> done = false;
  std::atomic<int> rounds = 0;
  std::thread patching([&] {
    for (; !done; ++rounds) {
      agent().enter(-1);
      agent().place(file.path(), use_jumps);
      agent().leave();
    }
  });
  int wrong = 0;
  for (int i = 0; i < 300; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      // Another thread may have had AddressSanitizer's locks, so nothing is allocated here.
      const bool good = targets().plain(1) == 2 && text == text_before;
      _exit(good ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    wrong += status == 0 ? 0 : 1;
  }
  done = true;
  patching.join();
  CHECK(wrong == 0);
  CHECK(rounds > 10);
}

namespace {

std::atomic<std::uint64_t> alarm_calls = 0;

void on_alarm(int) {
  for (int i = 0; i < 5; ++i) {
    targets().plain(i);
    ++alarm_calls;
  }
}

}  // namespace

TEST_CASE("a signal handler that enters probed functions loses no event of either side") {
  const bool use_jumps = GENERATE(false, true);
  CAPTURE(use_jumps);
  const ProbesGoAtTheEnd guard;
  const PlanFile file(all_targets());
  REQUIRE(agent().place(file.path(), use_jumps ? 1 : 0) > 0);
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = on_alarm;
  action.sa_flags = SA_RESTART;
  REQUIRE(sigaction(SIGALRM, &action, &before) == 0);
  alarm_calls = 0;
  std::uint64_t calls = 0;
  REQUIRE(start_recording(std::uint64_t{2} << 30) == 0);
  const itimerval every_millisecond{{0, 1000}, {0, 1000}};
  REQUIRE(setitimer(ITIMER_REAL, &every_millisecond, nullptr) == 0);
  while (alarm_calls < 2000) {
    for (int i = 0; i < 100; ++i) {
      targets().plain(1);
      ++calls;
    }
  }
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  REQUIRE(agent().stop() == 0);
  sigaction(SIGALRM, &before, nullptr);
  const RawRecording raw = recorded();
  CHECK(raw.event_count() == calls + alarm_calls);
  const std::uint32_t plain = raw.plans.at(0).range.first_id;
  const auto& events = raw.threads.at(0).events;
  CHECK(std::all_of(events.begin(), events.end(),
                    [plain](const recording::Event& event) { return event.id == plain; }));
}

namespace {

std::uint64_t steps = 0;
std::uint64_t step_calls = 0;
std::uint64_t steps_per_call = 1;

void on_step(int, siginfo_t*, void*) {
  if (++steps % steps_per_call == 0) {
    targets().plain(1);
    ++step_calls;
  }
}

// Single-steps target_plain: SIGTRAP is raised after each instruction.
void step_through_plain() {
  auto* const plain = targets().plain;
  asm volatile(
      "leaq -128(%%rsp), %%rsp\n"
      "pushfq\n"
      "orq $0x100, (%%rsp)\n"
      "popfq\n"
      "call *%0\n"
      "pushfq\n"
      "andq $~0x100, (%%rsp)\n"
      "popfq\n"
      "leaq 128(%%rsp), %%rsp"
      :
      : "b"(plain)
      : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc", "memory");
}

}  // namespace

TEST_CASE("a handler may enter a probed function between any two instructions of a probe") {
  struct sigaction stepping{};
  struct sigaction before{};
  stepping.sa_sigaction = on_step;
  stepping.sa_flags = SA_SIGINFO;
  REQUIRE(sigaction(SIGTRAP, &stepping, &before) == 0);
  const ProbesGoAtTheEnd guard;
  const PlanFile file(all_targets());
  REQUIRE(agent().place(file.path(), 1) > 0);
  // If the handler makes a call after every instruction, it always takes the slot that the probe is
  // about to take. The probe retries until the chunk is full, so a few calls suffice.
  steps_per_call = GENERATE(1U, 11U, 13U);
  CAPTURE(steps_per_call);
  const std::uint64_t calls = steps_per_call == 1 ? 5 : 500;
  steps = 0;
  step_calls = 0;
  REQUIRE(start_recording() == 0);
  for (std::uint64_t i = 0; i < calls; ++i) {
    step_through_plain();
  }
  REQUIRE(agent().stop() == 0);
  REQUIRE(agent().remove() == 0);
  sigaction(SIGTRAP, &before, nullptr);
  CHECK(steps > 20 * calls);
  CHECK(recorded().event_count() == step_calls + calls);
}

namespace {

std::atomic<int> foreign_traps = 0;

void on_foreign_trap(int, siginfo_t* information, void*) {
  foreign_traps += information != nullptr ? 1 : 0;
}

// Returns the wait status of a child that runs `act` with probes placed as int3.
template <typename Act>
int status_of_child(void (*handler)(int), Act act) {
  const PlanFile file(all_targets());
  const pid_t child = fork();
  if (child == 0) {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    std::signal(SIGTRAP, handler);
    if (agent().place(file.path(), 0) <= 0 || targets().plain(1) != 2) {
      _exit(9);
    }
    act();
    _exit(targets().plain(1) == 2 ? 0 : 8);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("a trap that is not ours goes to whoever had SIGTRAP before") {
  struct sigaction theirs{};
  struct sigaction before{};
  theirs.sa_sigaction = on_foreign_trap;
  theirs.sa_flags = SA_SIGINFO;
  REQUIRE(sigaction(SIGTRAP, &theirs, &before) == 0);
  foreign_traps = 0;
  {
    const ProbesGoAtTheEnd guard;
    const PlanFile file(all_targets());
    REQUIRE(agent().place(file.path(), 0) > 0);
    CHECK(targets().plain(1) == 2);
    CHECK(foreign_traps == 0);
    asm volatile("int3");
    CHECK(foreign_traps == 1);
    raise(SIGTRAP);
    CHECK(foreign_traps == 2);
    CHECK(targets().plain(1) == 2);
    REQUIRE(agent().remove() == 0);
  }
  struct sigaction now{};
  REQUIRE(sigaction(SIGTRAP, &before, &now) == 0);
  CHECK(now.sa_sigaction == on_foreign_trap);

  const int killed = status_of_child(SIG_DFL, [] { asm volatile("int3"); });
  CHECK((WIFSIGNALED(killed) && WTERMSIG(killed) == SIGTRAP));
  CHECK(status_of_child(SIG_IGN, [] { raise(SIGTRAP); }) == 0);
  const int ignored_int3 = status_of_child(SIG_IGN, [] { asm volatile("int3"); });
  CHECK((WIFSIGNALED(ignored_int3) && WTERMSIG(ignored_int3) == SIGTRAP));
}

namespace {

// Reserves all free address space within `reach` bytes of `around` until destroyed.
class NoRoom {
 public:
  NoRoom(std::uint64_t around, std::uint64_t reach) {
    // A sanitizer may map or unmap memory while this reads what is mapped, so this reads again
    // until it finds no gap.
    for (int attempt = 0; reserve_gaps(around - reach, around + reach); ++attempt) {
      REQUIRE(attempt < 100);
    }
  }
  ~NoRoom() {
    for (const auto& [memory, size] : reserved_) {
      munmap(memory, size);
    }
  }
  NoRoom(const NoRoom&) = delete;
  NoRoom& operator=(const NoRoom&) = delete;

 private:
  // Returns whether there was a gap in [first, last).
  bool reserve_gaps(std::uint64_t first, std::uint64_t last) {
    std::ifstream maps("/proc/self/maps");
    std::vector<std::pair<std::uint64_t, std::uint64_t>> mappings;
    std::string line;
    while (std::getline(maps, line)) {
      const std::size_t dash = line.find('-');
      mappings.emplace_back(std::stoull(line, nullptr, 16),
                            std::stoull(line.substr(dash + 1), nullptr, 16));
    }
    mappings.emplace_back(last, last);
    bool found = false;
    std::uint64_t at = first;
    for (const auto& [begin, end] : mappings) {
      const std::uint64_t gap_end = std::min(begin, last);
      if (at < gap_end) {
        void* const memory =
            mmap(reinterpret_cast<void*>(at), gap_end - at, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (memory != MAP_FAILED) {
          reserved_.emplace_back(memory, gap_end - at);
        }
        found = true;
      }
      at = std::max(at, end);
    }
    return found;
  }

  std::vector<std::pair<void*, std::uint64_t>> reserved_;
};

}  // namespace

TEST_CASE("without room near the module, all are int3 but those whose code refers to it") {
  const ProbesGoAtTheEnd guard;
  const PlanBuilder builder = all_targets();
  const PlanFile file(builder);
  // Reserves whole pages, and more than the agent's reach: no page that libc maps meanwhile is in
  // reach.
  const std::uint64_t around = as_number(as_pointer(targets().plain)) & ~std::uint64_t{4095};
  {
    const NoRoom reserved(around, 0x8800'0000);
    CHECK(agent().place(file.path(), 1) == static_cast<int>(builder.probes.size() - 4));
  }
  CHECK(agent().counters().no_room == 4);
  CHECK(agent().counters().jumps == 0);
  REQUIRE(start_recording() == 0);
  call_all_targets();
  REQUIRE(agent().stop() == 0);
  const RawRecording raw = recorded();
  std::vector<std::uint32_t> expected = entries_of_all_targets();
  // The code of rip_relative and immediate refers to data; call_first contains a call and
  // branch_first a branch into the module.
  std::erase_if(expected,
                [](std::uint32_t id) { return id == 2 || id == 3 || id == 4 || id == 6; });
  CHECK(ids_of(raw) == expected);
  CHECK(raw.plans.at(0).range.placed == builder.probes.size() - 4);
}

TEST_CASE("a probe is placed only where the module holds what the plan says") {
  const ProbesGoAtTheEnd guard;
  const Targets& t = targets();
  PlanBuilder builder(as_pointer(t.plain));
  builder.add_plain(as_pointer(t.plain), 5).add_plain(as_pointer(t.nothing), 5);
  builder.probes[0].original[1] ^= 1;
  builder.add_plain(t.value, 4, plan::Patch::trap_only);  // Data, not text.
  const auto* middle = reinterpret_cast<const std::uint8_t*>(t.landing_pad);
  builder.add_plain(middle, 6).add_plain(middle + 4, 2, plan::Patch::trap_only);
  const PlanFile file(builder);
  CHECK(agent().place(file.path(), 1) == 2);
  const optrace_agent_counters counters = agent().counters();
  CHECK(counters.bytes_differ == 1);
  CHECK(counters.outside_text == 1);
  CHECK(counters.overlapping == 1);
  CHECK(counters.jumps == 1);
  CHECK(counters.traps == 1);
  call_all_targets();
  // A second plan for the same function finds changed bytes.
  PlanBuilder again(as_pointer(t.plain));
  again.add(as_pointer(t.nothing), plan::Patch::jump, 5, {0x90, 0x90, 0x90, 0x90, 0x90});
  std::fill(again.probes[0].original, again.probes[0].original + 5, std::uint8_t{0x90});
  const PlanFile second(again);
  CHECK(agent().place(second.path(), 1) == 0);
  CHECK(agent().counters().bytes_differ == 2);
}

TEST_CASE("plans in any order of addresses are placed") {
  const ProbesGoAtTheEnd guard;
  const PlanBuilder builder = all_targets();
  std::vector<std::uint8_t> bytes = builder.bytes();
  auto* const probes = reinterpret_cast<plan::Probe*>(bytes.data() + sizeof(plan::Header));
  std::reverse(probes, probes + builder.probes.size());
  PlanBuilder::seal(bytes);
  const PlanFile file(bytes);
  REQUIRE(agent().place(file.path(), 1) == static_cast<int>(builder.probes.size()));
  REQUIRE(start_recording() == 0);
  call_all_targets();
  REQUIRE(agent().stop() == 0);
  std::vector<std::uint32_t> expected = entries_of_all_targets();
  for (std::uint32_t& index : expected) {
    index = static_cast<std::uint32_t>(builder.probes.size()) - 1 - index;
  }
  CHECK(ids_of(recorded()) == expected);
}

TEST_CASE("what is no plan is refused, whatever is wrong with it") {
  const std::vector<std::uint8_t> good = all_targets().bytes();
  const optrace::PrivateFolder folder;
  const std::filesystem::path path = folder.path() / "plan";
  const auto place = [&path](const std::vector<std::uint8_t>& bytes) {
    PlanBuilder::save(path, bytes);
    return agent().place(path.c_str(), 1);
  };
  CHECK(agent().place(path.c_str(), 1) == -ENOENT);
  CHECK(agent().place(folder.path().c_str(), 1) == -EBADMSG);
  CHECK(place({}) == -EBADMSG);
  CHECK(place({1, 2, 3}) == -EBADMSG);
  std::vector<std::uint8_t> bytes = good;
  bytes.back() ^= 1;
  CHECK(place(bytes) == -EBADMSG);
  bytes = good;
  bytes[0] = 'X';
  CHECK(place(bytes) == -EBADMSG);
  bytes = good;
  bytes[offsetof(plan::Header, version)] += 1;
  CHECK(place(bytes) == -EPROTONOSUPPORT);
  bytes = good;
  bytes[offsetof(plan::Header, build_id)] ^= 1;
  PlanBuilder::seal(bytes);
  CHECK(place(bytes) == -ENXIO);
  bytes = good;
  bytes.pop_back();
  CHECK(place(bytes) == -EBADMSG);
  CHECK(agent().counters().jumps == 0);
}

TEST_CASE("the plan reader survives any bytes") {
  const std::vector<std::uint8_t> good = all_targets().bytes();
  std::mt19937 random(4711);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::uint8_t> bytes = good;
    const int changes = static_cast<int>(random() % 4) + 1;
    for (int change = 0; change < changes; ++change) {
      bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
    }
    if (random() % 4 == 0) {
      bytes.resize(random() % (bytes.size() + 1));
    }
    if (bytes.size() >= sizeof(plan::Header) && random() % 8 != 0) {
      PlanBuilder::seal(bytes);
    }
    optrace::agent::PlanView view;
    if (optrace::agent::parse_plan(bytes.data(), bytes.size(), view) != 0) {
      CHECK(view.header == nullptr);
      continue;
    }
    ++accepted;
    // Reads everything that the agent would read, so that a sanitizer checks the bounds.
    std::uint64_t sum = 0;
    for (std::uint32_t p = 0; p < view.header->probe_count; ++p) {
      const plan::Probe& probe = view.probes[p];
      for (std::uint32_t c = 0; c < probe.code_size; ++c) {
        sum += view.code[probe.code_offset + c];
      }
      for (std::uint32_t f = 0; f < probe.fixup_count; ++f) {
        const plan::Fixup& fixup = view.fixups[probe.first_fixup + f];
        const std::uint32_t width = fixup.kind == plan::FixupKind::absolute64 ? 8 : 4;
        REQUIRE(fixup.offset + width <= probe.code_size);
      }
    }
    for (std::uint32_t c = 0; c < view.header->path_size; ++c) {
      sum += static_cast<std::uint8_t>(view.path[c]);
    }
    CHECK(sum > 0);
  }
  CHECK(accepted > 100);
}

TEST_CASE("a probed library stays loaded until its probes are out") {
  const ProbesGoAtTheEnd guard;
  const optrace::PrivateFolder folder;
  const std::filesystem::path copy = folder.path() / "copy.so";
  std::filesystem::copy_file(OPTRACE_PROBE_TARGETS, copy);
  void* const library = open_library(copy.c_str());
  auto* const plain = symbol<IntFunction>(library, "target_plain");
  REQUIRE(plain != targets().plain);
  // The build-id is that of the library that is loaded already; only the paths differ.
  PlanBuilder builder(as_pointer(plain));
  builder.add_plain(as_pointer(plain), 5);
  const PlanFile file(builder);
  REQUIRE(agent().place(file.path(), 1) == 1);
  dlclose(library);
  void* const kept = dlopen(copy.c_str(), RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(kept != nullptr);
  dlclose(kept);
  REQUIRE(start_recording() == 0);
  CHECK(plain(1) == 2);
  REQUIRE(agent().stop() == 0);
  CHECK(recorded().event_count() == 1);
  REQUIRE(agent().remove() == 0);
  CHECK(dlopen(copy.c_str(), RTLD_NOW | RTLD_NOLOAD) == nullptr);
}

TEST_CASE("somebody else's patch over ours is left alone and counted") {
  const Targets& t = targets();
  PlanBuilder builder(as_pointer(t.nothing));
  builder.add_plain(as_pointer(t.nothing), 5);
  const PlanFile file(builder);
  const pid_t child = fork();  // In a child: the patch is never removed.
  if (child == 0) {
    bool good = agent().place(file.path(), 1) == 1;
    auto* const entry = reinterpret_cast<std::uint8_t*>(t.nothing);
    auto* const page =
        reinterpret_cast<void*>(as_number(as_pointer(t.nothing)) & ~std::uint64_t{4095});
    mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC);
    entry[0] = 0xc3;
    good = good && agent().remove() == -EBUSY && agent().counters().left_behind == 1 &&
           entry[0] == 0xc3;
    _exit(good ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

namespace {

struct Footprint {
  std::size_t mappings = 0;
  std::size_t resident_kib = 0;
};

Footprint footprint() {
  Footprint now;
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line)) {
    ++now.mappings;
  }
  std::ifstream status("/proc/self/status");
  while (std::getline(status, line)) {
    if (line.rfind("VmRSS:", 0) == 0) {
      now.resident_kib = std::stoul(line.substr(6));
    }
  }
  return now;
}

}  // namespace

TEST_CASE("500 rounds of placing, recording and removing leave nothing behind") {
  const bool another_thread = GENERATE(false, true);
  CAPTURE(another_thread);
  const ProbesGoAtTheEnd guard;
  std::atomic<bool> over = false;
  std::thread other;
  if (another_thread) {  // Slots can't be freed then, and must be reused.
    other = std::thread([&over] {
      while (!over) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  const PlanFile file(all_targets());
  Footprint before;
  const int rounds = another_thread ? 100 : 500;  // Removal waits for traps of other threads.
  for (int i = 0; i < rounds; ++i) {
    REQUIRE(agent().place(file.path(), i % 2) == 11);
    REQUIRE(start_recording() == 0);
    targets().plain(1);
    REQUIRE(agent().stop() == 0);
    REQUIRE(agent().remove() == 0);
    if (i == 20) {
      before = footprint();
    }
  }
  const Footprint after = footprint();
  over = true;
  if (other.joinable()) {
    other.join();
  }
  // The allocator of a sanitizer maps memory, too. What each round leaves would be 80 mappings.
  CHECK(after.mappings <= before.mappings + (kSanitized ? 10 : 1));
  CHECK(after.resident_kib <= before.resident_kib + (kSanitized ? 4096 : 512));
}

namespace {

constexpr std::uint64_t kRegionSize = 4ULL << 20;
// Of its room for 16 chunks, one is the header's and half are the arena's.
constexpr std::uint64_t kSmallRegion = 1ULL << 20;
constexpr std::uint32_t kChunks = 7;

// A shared region. Recordings go into it until it is destroyed.
class SharedRegion {
 public:
  explicit SharedRegion(std::uint64_t size = kRegionSize)
      : fd_(memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    REQUIRE(agent().share(fd_, size) == 0);
    reader_.emplace(fd_);
    close(fd_);
  }
  ~SharedRegion() {
    agent().stop();
    agent().share(-1, 0);
  }
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  RegionReader& reader() { return *reader_; }

 private:
  int fd_;
  std::optional<RegionReader> reader_;
};

}  // namespace

TEST_CASE("a region holds what is recorded") {
  const ProbesGoAtTheEnd guard;
  const PlanBuilder builder = all_targets();
  const PlanFile file(builder);
  REQUIRE(agent().place(file.path(), 1) == static_cast<int>(builder.probes.size()));
  CHECK(agent().share(-1, 0) == 0);
  CHECK(agent().start() == -ENODATA);
  CHECK(agent().share(0, 4096) == -EINVAL);
  SharedRegion shared;
  RegionReader& reader = shared.reader();
  CHECK(reader.header().recording == 0);
  const std::string record = R"({"op": "aten::add.Tensor"})";
  CHECK(agent().keep_record(3, record.data(), record.size()) == 0);
  CHECK(agent().note(recording::kOpBegin, 3, 17, 1) == -ENODATA);
  REQUIRE(agent().start() == 0);
  CHECK(agent().share(-1, 0) == -EBUSY);
  CHECK(agent().note(recording::kPythonCall, 0, 0, 0) == -EINVAL);
  CHECK(agent().note(recording::kOpBegin, 3, 17, 1) == 0);
  call_all_targets();
  const std::uint32_t paused = agent().pause_thread();
  call_all_targets();
  agent().resume_thread(paused);
  CHECK(agent().note(recording::kOpEnd, 0, 17, 0) == 0);
  CHECK(reader.header().recording == 1);
  CHECK(reader.header().stop_ticks == 0);
  reader.drain();
  REQUIRE(reader.threads().size() == 1);
  const auto& thread = reader.threads().begin()->second;
  CHECK(reader.threads().begin()->first == static_cast<std::uint32_t>(gettid()));
  std::vector<std::uint32_t> ids;
  ids.reserve(thread.events.size());
  REQUIRE(reader.plans().size() == 1);
  CHECK(reader.plans()[0].path == file.path());
  CHECK(reader.plans()[0].range.placed == builder.probes.size());
  for (const recording::Event& event : thread.events) {
    ids.push_back(event.id - reader.plans()[0].range.first_id);
  }
  REQUIRE(ids.size() > 2);
  CHECK(thread.events.front().id == recording::kOpBegin);
  CHECK(thread.events.front().line == 3);
  CHECK(thread.events.front().stack_pointer == 17);
  CHECK(thread.events.front().return_address == 1);
  CHECK(thread.events.back().id == recording::kOpEnd);
  CHECK(std::vector<std::uint32_t>(ids.begin() + 1, ids.end() - 1) == entries_of_all_targets());
  CHECK(reader.initial_frames() > 3);
  CHECK(reader.op_records().at(3) == record);
  CHECK(std::count(reader.modules().begin(), reader.modules().end(), builder.path) == 1);
  REQUIRE(agent().stop() == 0);
  CHECK(reader.header().recording == 0);
  CHECK(reader.header().stop_ticks > reader.header().start_ticks);
  // The next region gets the record too, without another call of keep_record().
  SharedRegion next;
  REQUIRE(agent().start() == 0);
  REQUIRE(agent().stop() == 0);
  next.reader().drain();
  CHECK(next.reader().op_records().at(3) == record);
  CHECK(next.reader().threads().empty());
  // This ends when all probes are removed.
  REQUIRE(agent().remove() == 0);
  SharedRegion last;
  REQUIRE(agent().start() == 0);
  REQUIRE(agent().stop() == 0);
  last.reader().drain();
  CHECK(last.reader().op_records().empty());
}

TEST_CASE("threads that outrun the reader wait for it and lose nothing") {
  const ProbesGoAtTheEnd guard;
  const PlanFile file(all_targets());
  REQUIRE(agent().place(file.path(), 1) > 0);
  SharedRegion shared(kSmallRegion);
  RegionReader& reader = shared.reader();
  std::atomic<bool> over = false;
  std::thread reading([&] {
    std::this_thread::sleep_for(std::chrono::seconds(3));  // As on a busy machine.
    while (!over) {
      reader.drain();
    }
  });
  REQUIRE(agent().start() == 0);
  constexpr int kThreads = 64;  // More than chunks; chunks of ended threads are reused.
  constexpr int kCalls = 5000;
  for (int batch = 0; batch < 8; ++batch) {
    std::vector<std::thread> threads;
    threads.reserve(kThreads / 8);
    for (int t = 0; t < kThreads / 8; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < kCalls; ++i) {
          targets().plain(i);
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
  REQUIRE(agent().stop() == 0);
  over = true;
  reading.join();
  reader.drain();
  CHECK(agent().counters().lost == 0);
  CHECK(reader.lost() == 0);
  std::uint64_t events = 0;
  for (const auto& [id, thread] : reader.threads()) {
    CHECK(thread.events.size() % kCalls == 0);
    events += thread.events.size();
  }
  CHECK(events == std::uint64_t{kThreads} * kCalls);
  CHECK(reader.header().waited > 1'000'000'000);
}

TEST_CASE("a thread seals a chunk only while it owns it") {
  const ProbesGoAtTheEnd guard;
  const PlanFile file(all_targets());
  REQUIRE(agent().place(file.path(), 1) > 0);
  SharedRegion shared(kSmallRegion);
  REQUIRE(agent().start() == 0);
  targets().plain(1);
  const auto thread = static_cast<std::uint32_t>(gettid());
  recording::ChunkHeader& first = shared.reader().chunk(0);
  REQUIRE(first.thread == thread);
  const std::uint32_t other = thread + 1;  // As if another thread had taken the chunk since.
  std::atomic_ref(first.thread).store(other);
  for (std::uint32_t i = 0; i < recording::kEventsPerChunk; ++i) {
    targets().plain(1);
  }
  CHECK(first.thread == other);
  CHECK(first.state == static_cast<std::uint32_t>(recording::ChunkState::owned));
  CHECK(shared.reader().chunk(1).thread == thread);
}

// Returns the PID of a process that has ended.
static std::uint32_t ended_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  return static_cast<std::uint32_t>(child);
}

TEST_CASE("a reader that died does not stop the program, and what is lost is counted") {
  const ProbesGoAtTheEnd guard;
  const PlanFile file(all_targets());
  REQUIRE(agent().place(file.path(), 1) > 0);
  SharedRegion shared(kSmallRegion);
  shared.reader().header().reader = ended_process();
  REQUIRE(agent().start() == 0);
  constexpr std::uint64_t kCalls = 100'000;
  constexpr std::uint64_t kRoom = std::uint64_t{kChunks} * recording::kEventsPerChunk;
  for (std::uint64_t i = 0; i < kCalls; ++i) {
    targets().plain(1);
  }
  CHECK(agent().counters().lost == kCalls - kRoom);
  // When the reader continues, recording does too.
  RegionReader& reader = shared.reader();
  reader.drain();
  CHECK(reader.header().lost == kCalls - kRoom);
  targets().plain(1);
  REQUIRE(agent().stop() == 0);
  reader.drain();
  CHECK(reader.header().lost == 0);
  CHECK(reader.lost() == kCalls - kRoom);  // Now in the header of the thread's chunk.
  CHECK(reader.threads().begin()->second.events.size() == kRoom + 1);
}

TEST_CASE("a forked child may record into a region of its own, never into its parent's") {
  const bool past_libc = GENERATE(false, true);
  const bool parent_records = GENERATE(false, true);
  CAPTURE(past_libc, parent_records);
  const ProbesGoAtTheEnd guard;
  const PlanFile file(all_targets());
  REQUIRE(agent().place(file.path(), 1) > 0);
  SharedRegion shared;
  RegionReader& reader = shared.reader();
  const std::string record = "{}";
  REQUIRE(agent().keep_record(1, record.data(), record.size()) == 0);
  const int childs = memfd_create("child", MFD_CLOEXEC);
  if (parent_records) {
    REQUIRE(agent().start() == 0);
  }
  targets().plain(1);
  const pid_t child = past_libc ? static_cast<pid_t>(syscall(SYS_fork)) : fork();
  if (child == 0) {
    targets().plain(1);
    bool good = agent().share(childs, kRegionSize) == 0;
    targets().plain(1);
    good = good && agent().start() == 0;
    targets().plain(1);
    targets().nothing();
    good = good && agent().stop() == 0 && targets().plain(1) == 2;
    _exit(good ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  targets().plain(1);
  CHECK(agent().stop() == (parent_records ? 0 : -EALREADY));
  reader.drain();
  std::size_t events = 0;
  for (const auto& [id, thread] : reader.threads()) {
    CHECK(id == static_cast<std::uint32_t>(gettid()));
    events += thread.events.size();
  }
  CHECK(events == (parent_records ? 2 : 0));
  RegionReader of_child(childs);
  close(childs);
  of_child.drain();
  CHECK(of_child.header().process == static_cast<std::uint32_t>(child));
  REQUIRE(of_child.threads().size() == 1);
  CHECK(of_child.threads().begin()->first == static_cast<std::uint32_t>(child));
  CHECK(of_child.threads().begin()->second.events.size() == 2);
  CHECK(of_child.plans().at(0).path == file.path());
  CHECK(of_child.op_records().at(1) == record);
}

TEST_CASE("between any two instructions, an event has its whole time or none") {
  const ProbesGoAtTheEnd guard;
  const PlanFile file(all_targets());
  REQUIRE(agent().place(file.path(), 1) > 0);
  const int descriptor = memfd_create("child", MFD_CLOEXEC);
  const pid_t child = fork();
  if (child == 0) {
    const bool good = agent().share(descriptor, kRegionSize) == 0 && agent().start() == 0;
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    targets().plain(1);
    targets().nothing();
    _exit(good ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSTOPPED(status));
  const RegionReader of_child(descriptor);
  close(descriptor);
  const auto* const events = reinterpret_cast<const recording::Event*>(&of_child.chunk(0) + 1);
  std::size_t without = 0;
  std::set<std::uint64_t> times;
  while (WIFSTOPPED(status)) {
    for (int i = 0; i < 2; ++i) {
      const std::uint64_t ticks = __atomic_load_n(&events[i].ticks, __ATOMIC_ACQUIRE);
      if (ticks != 0) times.insert(ticks);
      without += ticks == 0 ? 1 : 0;
    }
    REQUIRE(ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) == 0);
    REQUIRE(waitpid(child, &status, 0) == child);
  }
  CHECK(status == 0);
  CHECK(without != 0);
  CHECK(times.size() == 2);
}

TEST_CASE("a forked child without a region of its own can't record") {
  const ProbesGoAtTheEnd guard;
  const PlanFile file(all_targets());
  REQUIRE(agent().place(file.path(), 1) > 0);
  SharedRegion shared;
  REQUIRE(agent().start() == 0);
  targets().plain(1);
  const pid_t child = fork();
  if (child == 0) {
    const bool refused = agent().start() == -ENODATA;
    targets().plain(1);
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  REQUIRE(agent().stop() == 0);
  shared.reader().drain();
  CHECK(shared.reader().threads().at(static_cast<std::uint32_t>(gettid())).events.size() == 1);
}

TEST_CASE("exceptions, alarms and deep recursion pass through probes that a reader empties") {
  const ProbesGoAtTheEnd guard;
  PlanBuilder builder = all_targets();
  auto* const recurses = symbol<IntFunction>(targets().library, "target_recurses");
  builder.add_plain(as_pointer(recurses), 5);
  const PlanFile file(builder);
  REQUIRE(agent().place(file.path(), 1) == static_cast<int>(builder.probes.size()));
  SharedRegion shared(1ULL << 20);
  std::atomic<bool> over = false;
  sigset_t alarms;
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarms, nullptr);  // A reader that hit probes would wait for itself.
  std::thread reading([&] {
    while (!over) {
      shared.reader().drain();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  pthread_sigmask(SIG_UNBLOCK, &alarms, nullptr);
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = on_alarm;
  action.sa_flags = SA_RESTART;
  REQUIRE(sigaction(SIGALRM, &action, &before) == 0);
  alarm_calls = 0;
  REQUIRE(agent().start() == 0);
  const itimerval every_millisecond{{0, 1000}, {0, 1000}};
  REQUIRE(setitimer(ITIMER_REAL, &every_millisecond, nullptr) == 0);
  constexpr int kDepth = 100'000;
  std::uint64_t calls = 0;
  int wrong = 0;
  while (alarm_calls < 1000) {
    try {
      targets().calls_thrower(1);
      ++wrong;
    } catch (const std::runtime_error&) {
    }
    wrong += recurses(kDepth) == kDepth ? 0 : 1;
    calls += 1 + kDepth + 1;
  }
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  REQUIRE(agent().stop() == 0);
  sigaction(SIGALRM, &before, nullptr);
  over = true;
  reading.join();
  shared.reader().drain();
  CHECK(wrong == 0);
  CHECK(agent().counters().lost == 0);
  std::uint64_t events = 0;
  for (const auto& [id, thread] : shared.reader().threads()) {
    events += thread.events.size();
  }
  CHECK(events == calls + alarm_calls);
}

TEST_CASE("whatever the reader writes, the program does not notice") {
  const ProbesGoAtTheEnd guard;
  const PlanFile file(all_targets());
  REQUIRE(agent().place(file.path(), 1) > 0);
  SharedRegion shared(kSmallRegion);
  RegionReader& reader = shared.reader();
  std::atomic<bool> over = false;
  std::thread hostile([&] {
    std::mt19937 random(4711);
    recording::RegionHeader& header = reader.header();
    auto* const words = reinterpret_cast<std::uint32_t*>(&header);
    const auto put = [&random](std::uint32_t& word) {
      std::atomic_ref(word).store(random() % 4 == 0 ? 0 : static_cast<std::uint32_t>(random()));
    };
    while (!over) {
      for (int i = 0; i < 200; ++i) {
        put(words[random() % (sizeof(header) / sizeof(*words))]);  // Also the agent's own fields.
        put(reader.hostile_chunk(static_cast<std::uint32_t>(random() % kChunks)).state);
      }
      for (std::uint32_t i = 0; i < kChunks; ++i) {
        recording::ChunkHeader& chunk = reader.hostile_chunk(i);
        put(chunk.thread);
        std::atomic_ref(chunk.state).store(static_cast<std::uint32_t>(random() % 4));
        auto* const event = reinterpret_cast<std::uint32_t*>(&chunk) + random() % 16000;
        put(*event);
      }
      std::this_thread::yield();
    }
  });
  const std::string record(100, 'x');
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int round = 0; round < 3; ++round) {
    REQUIRE(agent().start() == 0);
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 20'000; ++i) {
          wrong += targets().plain(i) == i + 1 ? 0 : 1;
          if (i % 1000 == 0) {
            agent().note(recording::kOpBegin, 1, 2, 3);
            agent().keep_record(1, record.data(), record.size());
            agent().serve();
          }
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    threads.clear();
    agent().stop();
  }
  over = true;
  hostile.join();
  CHECK(wrong == 0);
}

TEST_CASE("the reader can stop the recording and have plans placed") {
  const ProbesGoAtTheEnd guard;
  const PlanFile file(all_targets());
  SharedRegion shared;
  RegionReader& reader = shared.reader();
  CHECK(agent().serve() == 0);
  REQUIRE(agent().start() == 0);
  targets().plain(1);
  reader.want_plan(file.path());
  REQUIRE(agent().serve() == 11);
  CHECK(reader.header().plan_done == reader.header().plan_requested);
  CHECK(reader.header().plan_result == 11);
  CHECK(agent().counters().traps + agent().counters().jumps == 11);
  targets().plain(1);
  reader.want_plan("/nowhere");
  CHECK(agent().serve() == -ENOENT);
  CHECK(reader.header().plan_result == -ENOENT);
  reader.header().stop = 1;
  CHECK(agent().serve() == 0);
  CHECK(reader.header().recording == 0);
  CHECK(agent().stop() == -EALREADY);
  targets().plain(1);
  reader.drain();
  CHECK(reader.threads().begin()->second.events.size() == 1);
  CHECK(reader.plans().at(0).range.placed == 11);
}

TEST_CASE("callers without a probe are recorded with what they call, up to the next one with one") {
  const Targets& t = targets();
  const ProbesGoAtTheEnd guard;
  PlanBuilder builder(as_pointer(t.plain));
  builder.add_plain(as_pointer(t.plain), 5);
  const PlanFile file(builder);
  REQUIRE(agent().place(file.path(), 1) == 1);
  REQUIRE(agent().callers(1) == 0);
  REQUIRE(start_recording() == 0);
  CHECK(agent().callers(0) == -EBUSY);
  // Two frames of this test. The inner one has a frame pointer and a variable-size stack frame.
  std::uint64_t here = 0;
  const auto inner = [&here](int size) __attribute__((noinline)) {
    auto* const room =
        static_cast<volatile char*>(__builtin_alloca(static_cast<std::size_t>(size)));
    room[0] = 1;
    here = reinterpret_cast<std::uint64_t>(__builtin_return_address(0));
    return targets().plain(room[0]);
  };
  const auto outer = [&inner](int size) __attribute__((noinline)) { return inner(size) + 1; };
  CHECK(outer(100) + outer(200) > 0);
  REQUIRE(agent().stop() == 0);
  REQUIRE(agent().callers(0) == 0);
  const RawRecording raw = recorded();
  REQUIRE(raw.threads.size() == 1);
  const auto& events = raw.threads[0].events;
  std::vector<std::size_t> entries;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (!recording::is_caller(events[i].id)) entries.push_back(i);
  }
  REQUIRE(entries.size() == 2);
  REQUIRE(entries[0] >= 3);  // The callers of the test are recorded too.
  for (const std::size_t entry : entries) {
    const recording::Event& called = events[entry];
    const recording::Event& first = events[entry - 1];
    const recording::Event& second = events[entry - 2];
    CHECK(recording::address_in_caller(first.id, first.line) == called.return_address);
    CHECK(recording::address_in_caller(second.id, second.line) == first.return_address);
    CHECK(called.stack_pointer < first.stack_pointer);
    CHECK(first.stack_pointer < second.stack_pointer);
    CHECK(first.return_address == here);
  }
  // The caller of main is the start of the process.
  CHECK(events[0].return_address == 0);
}

namespace {

constexpr std::size_t kRoom = 4096;

// Calls a probed function from a deep place of the stack.
[[gnu::noinline]] int call_deep_down(int argument) {
  volatile char* const room = static_cast<char*>(__builtin_alloca(kRoom));
  room[0] = 1;
  return targets().plain(argument) + room[0];
}

// Makes two notes while an unused part of its frame contains that place as it was left.
void note_calls() {
  REQUIRE(call_deep_down(1) == 3);
  volatile char* const room = static_cast<char*>(__builtin_alloca(2 * kRoom));
  room[0] = 1;
  const std::uint64_t at = as_number(const_cast<char*>(room));
  CHECK(agent().note(recording::kDeviceCall, 0, at, 7) == 0);
  CHECK(agent().note(recording::kCallRecord, 0, at, 0) == 0);
}

}  // namespace

TEST_CASE("what a library calls back is told from what has been called earlier") {
  const ProbesGoAtTheEnd guard;
  const PlanFile file(all_targets());
  REQUIRE(agent().place(file.path(), 1) > 0);
  REQUIRE(agent().callers(1) == 0);
  REQUIRE(start_recording() == 0);
  REQUIRE(targets().calls_back(&note_calls) == 1);
  REQUIRE(agent().stop() == 0);
  REQUIRE(agent().callers(0) == 0);
  const RawRecording raw = recorded();
  const auto& events = raw.threads.at(0).events;
  const auto kind = [](std::uint32_t id) {
    return [id](const recording::Event& event) { return event.id == id; };
  };
  const auto device = std::ranges::find_if(events, kind(recording::kDeviceCall));
  const auto record = std::ranges::find_if(events, kind(recording::kCallRecord));
  const auto ended = std::ranges::find_if(events, [](const recording::Event& event) {
    return event.id < recording::kFirstPythonEvent;
  });
  REQUIRE(device != events.end());
  REQUIRE(record != events.end());
  REQUIRE(ended < device);
  CHECK(record->stack_pointer < ended->stack_pointer);
  // The function of the library that has probes is recorded as the caller.
  REQUIRE(device > events.begin());
  const recording::Event& caller = device[-1];
  REQUIRE(recording::is_caller(caller.id));
  CHECK(caller.stack_pointer > ended->stack_pointer);
  CHECK(device->stack_pointer == caller.stack_pointer - 1);
  CHECK(device->return_address == 7);
  CHECK(record->return_address == device->stack_pointer);
}

namespace {

// Its last arguments are in the stack, at and below the return slot of what its caller called
// before.
[[gnu::noinline]] void note_device_call(long, long, long, long, long, long, long, long, long, long,
                                        long number) {
  CHECK(agent().note(recording::kDeviceCall, 0, as_number(__builtin_frame_address(0)),
                     static_cast<std::uint64_t>(number)) == 0);
}

void call_and_note() {
  REQUIRE(targets().plain(1) == 2);
  note_device_call(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
}

}  // namespace

TEST_CASE("what a library calls back is told from calls whose slots are overwritten") {
  const ProbesGoAtTheEnd guard;
  const PlanFile file(all_targets());
  REQUIRE(agent().place(file.path(), 1) > 0);
  REQUIRE(start_recording() == 0);
  targets().registers_changed_by(&call_and_note, 0);  // Can't be unwound.
  REQUIRE(agent().stop() == 0);
  const RawRecording raw = recorded();
  const auto& events = raw.threads.at(0).events;
  REQUIRE(events.size() == 2);
  CHECK(events[1].stack_pointer == events[0].stack_pointer);
  CHECK(events[1].return_address == 11);
}

TEST_CASE("without Python in the process, Python events are refused") {
  CHECK(agent().python(1) == -ENOSYS);
}

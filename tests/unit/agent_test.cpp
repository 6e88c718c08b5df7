#include "tracer/agent/agent.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/private_folder.h"
#include "tests/agent/plan_builder.h"
#include "tests/agent/raw_recording.h"
#include "tracer/agent/recording_format.h"

using optrace::test::PlanBuilder;
using optrace::test::RawRecording;
namespace plan = optrace::plan;
namespace recording = optrace::recording;

namespace {

template <typename Function>
Function* symbol(void* library, const char* name) {
  void* const address = dlsym(library, name);
  if (address == nullptr) {
    throw std::runtime_error(name);
  }
  return reinterpret_cast<Function*>(address);
}

void* open_library(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw std::runtime_error(dlerror());
  }
  return library;
}

// The agent as its users have it: loaded at run time.
struct Agent {
  void* library = open_library(OPTRACE_AGENT_LIBRARY);
  decltype(optrace_agent_place)* place =
      symbol<decltype(optrace_agent_place)>(library, "optrace_agent_place");
  decltype(optrace_agent_start)* start =
      symbol<decltype(optrace_agent_start)>(library, "optrace_agent_start");
  decltype(optrace_agent_stop)* stop =
      symbol<decltype(optrace_agent_stop)>(library, "optrace_agent_stop");
  decltype(optrace_agent_write)* write =
      symbol<decltype(optrace_agent_write)>(library, "optrace_agent_write");
  decltype(optrace_agent_python)* python =
      symbol<decltype(optrace_agent_python)>(library, "optrace_agent_python");
  decltype(optrace_agent_remove)* remove =
      symbol<decltype(optrace_agent_remove)>(library, "optrace_agent_remove");
  decltype(optrace_agent_read_counters)* read_counters =
      symbol<decltype(optrace_agent_read_counters)>(library, "optrace_agent_read_counters");

  optrace_agent_counters counters() const {
    optrace_agent_counters values{};
    REQUIRE(read_counters(&values) == 0);
    return values;
  }
};

const Agent& agent() {
  static const Agent loaded;
  return loaded;
}

using IntFunction = int(int);
using LongFunction = long(long);
using VoidFunction = void();

// The library of functions that are known byte by byte.
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

// All targets, in the order of their addresses, displaced as the planner would.
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

// The bytes of all executable segments of the module that holds `address`.
std::string text_of(const void* address) {
  struct Search {
    std::uint64_t address;
    std::string text;
  } search{as_number(address), {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* argument) {
        auto& sought = *static_cast<Search*>(argument);
        std::string text;
        bool holds = false;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = info->dlpi_phdr[i];
          if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0) {
            const std::uint64_t first = info->dlpi_addr + segment.p_vaddr;
            holds = holds || (sought.address >= first && sought.address < first + segment.p_memsz);
            text.append(reinterpret_cast<const char*>(first), segment.p_memsz);
          }
        }
        if (holds) {
          sought.text = text;
        }
        return 0;
      },
      &search);
  return search.text;
}

std::string write_recording() {
  char name[] = "/tmp/optrace-recording-XXXXXX";
  const int file = mkstemp(name);
  REQUIRE(file >= 0);
  unlink(name);
  const int result = agent().write(file);
  CHECK(result == 0);
  std::string bytes(static_cast<std::size_t>(lseek(file, 0, SEEK_END)), '\0');
  REQUIRE(pread(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  close(file);
  return bytes;
}

// Takes out whatever a test has placed, also when the test fails.
struct ProbesGoAtTheEnd {
  ~ProbesGoAtTheEnd() {
    agent().stop();
    agent().remove();
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

// Calls every target once and checks that it still does what it did.
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

// Indexes into all_targets(), in the order in which call_all_targets enters them.
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
  const std::string command = std::string("readelf -d ") + OPTRACE_AGENT_LIBRARY + " | grep NEEDED";
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

  call_all_targets();  // Not recording: nothing of this may show.
  REQUIRE(agent().start() == 0);
  CHECK(agent().start() == -EALREADY);
  CHECK(agent().write(1) == -EBUSY);
  call_all_targets();
  REQUIRE(agent().stop() == 0);
  CHECK(agent().stop() == -EALREADY);
  call_all_targets();

  const std::string bytes = write_recording();
  const RawRecording raw(bytes);
  CHECK(raw.complete);
  REQUIRE(raw.plans.size() == 1);
  CHECK(raw.plans[0].path == file.path());
  CHECK(raw.plans[0].range.placed == builder.probes.size());
  CHECK(std::count(raw.modules.begin(), raw.modules.end(), builder.path) == 1);
  REQUIRE(raw.threads.size() == 1);
  CHECK(raw.threads[0].header.id == static_cast<std::uint64_t>(gettid()));
  CHECK(raw.threads[0].header.lost == 0);
  CHECK(ids_of(raw) == entries_of_all_targets());
  CHECK(agent().write(1) == -ENODATA);

  const auto& events = raw.threads[0].events;
  for (std::size_t i = 0; i < events.size(); ++i) {
    CHECK(events[i].ticks >= raw.header.start_ticks);
    CHECK(events[i].ticks <= raw.header.stop_ticks);
    CHECK(events[i].line == 0);
    CHECK((i == 0 || events[i].ticks >= events[i - 1].ticks));
  }
  // target_call_first calls target_plain: its return address is behind its own call.
  CHECK(events[5].return_address == as_number(as_pointer(targets().call_first)) + 5);
  CHECK(events[5].stack_pointer == events[4].stack_pointer - 8);
  // target_jump_first jumps: same slot, same return address.
  CHECK(events[7].return_address == events[6].return_address);
  CHECK(events[7].stack_pointer == events[6].stack_pointer);

  REQUIRE(agent().remove() == 0);
  CHECK(text_of(as_pointer(targets().plain)) == text_before);
  call_all_targets();
}

TEST_CASE("a probe preserves every register, the red zone and the flags") {
  const bool use_jumps = GENERATE(false, true);
  const bool recording = GENERATE(false, true);
  CAPTURE(use_jumps, recording);
  const ProbesGoAtTheEnd guard;
  const PlanFile file(all_targets());
  REQUIRE(agent().place(file.path(), use_jumps ? 1 : 0) > 0);
  if (recording) {
    REQUIRE(agent().start() == 0);
  }
  // CF PF AF ZF SF OF in every combination, often enough to pass through several chunks.
  for (int round = 0; round < 100; ++round) {
    for (unsigned long flags = 0; flags < 64; ++flags) {
      const unsigned long value = 0x202 | (flags & 1) | (flags & 2) << 1 | (flags & 4) << 2 |
                                  (flags & 8) << 3 | (flags & 16) << 3 | (flags & 32) << 6;
      REQUIRE(targets().registers_changed_by(targets().nothing, value) == 0);
    }
  }
}

TEST_CASE("the initial stack is the live one") {
  const ProbesGoAtTheEnd guard;
  REQUIRE(agent().start() == 0);
  REQUIRE(agent().stop() == 0);
  const std::string bytes = write_recording();
  const RawRecording raw(bytes);
  REQUIRE(raw.threads.size() == 1);
  const auto& frames = raw.threads[0].initial;
  REQUIRE(frames.size() > 3);
  // Innermost is this test's own function, which the agent's caller is.
  Dl_info info{};
  REQUIRE(dladdr(reinterpret_cast<void*>(frames[0].instruction), &info) != 0);
  CHECK(std::string(info.dli_fname).find("unit_tests") != std::string::npos);
  for (std::size_t i = 1; i < frames.size(); ++i) {
    CHECK(frames[i].stack_pointer > frames[i - 1].stack_pointer);
    CHECK(frames[i].instruction == frames[i - 1].return_address);
  }
}

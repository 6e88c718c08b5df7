// Measures the cost of a probe, and of placing all probes.
//
//   agent_bench AGENT TARGETS [PLAN...]
//
// Each figure is the best of many short rounds in one run, so that ratios are stable on a busy
// machine. The peer is the minimum work of -finstrument-functions and mcount tracers (uftrace,
// gprof): a call at the entry that takes the next event's number from one shared atomic counter.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "platform/files/private_folder.h"
#include "target/agent/probes/plan_reader.h"
#include "target/agent/recording/event_buffer.h"
#include "target/interface/agent.h"
#include "tests/agent/plan_builder.h"

namespace {

using optrace::recording::Event;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 400;
constexpr int kCalls = 1'000;  // Rounds are short, so that one of them has the core for itself.
constexpr int kFreshCalls = 2'000'000;
constexpr std::uint64_t kPeerEvents = 1ULL << 20;

struct AgentInterface {
  explicit AgentInterface(const char* path) : library(dlopen(path, RTLD_NOW)) {
    if (library == nullptr) {
      throw std::runtime_error(dlerror());
    }
    find("optrace_agent_place", place);
    find("optrace_agent_share", share);
    find("optrace_agent_start", start);
    find("optrace_agent_stop", stop);
    find("optrace_agent_remove", remove);
  }

  template <typename T>
  void find(const char* name, T& function) const {
    function = reinterpret_cast<T>(dlsym(library, name));
    if (function == nullptr) {
      throw std::runtime_error(name);
    }
  }

  void* library;
  decltype(optrace_agent_place)* place = nullptr;
  decltype(optrace_agent_share)* share = nullptr;
  decltype(optrace_agent_start)* start = nullptr;
  decltype(optrace_agent_stop)* stop = nullptr;
  decltype(optrace_agent_remove)* remove = nullptr;
};

void check(int result, const char* what) {
  if (result < 0) {
    throw std::runtime_error(std::string(what) + ": errno " + std::to_string(-result));
  }
}

// Returns the nanoseconds per call of each round, ascending.
template <typename Call>
std::vector<double> costs(Call call, int rounds, int calls) {
  std::vector<double> found;
  for (int round = 0; round < rounds; ++round) {
    const auto before = Clock::now();
    for (int i = 0; i < calls; ++i) {
      call();
    }
    const std::chrono::duration<double, std::nano> took = Clock::now() - before;
    found.push_back(took.count() / calls);
  }
  std::sort(found.begin(), found.end());
  return found;
}

template <typename Call>
double cost(Call call, int rounds = kRounds, int calls = kCalls) {
  return costs(call, rounds, calls).front();
}

// Returns the median while a second thread makes the same calls. The best round would be one
// without contention.
template <typename Call>
double contended_cost(Call call) {
  std::atomic<bool> over = false;
  std::thread other([&] {
    while (!over.load(std::memory_order_relaxed)) {
      call();
    }
  });
  const double median = costs(call, kRounds, kCalls)[kRounds / 2];
  over = true;
  other.join();
  return median;
}

std::vector<Event> peer_events(kPeerEvents);
std::atomic<std::uint64_t> peer_next = 0;

// The work of an mcount function: a shared counter, a time stamp, an event.
__attribute__((noinline)) void peer_enter(std::uint32_t id) {
  Event& event = peer_events[peer_next.fetch_add(1, std::memory_order_relaxed) % kPeerEvents];
  event.id = id;
  event.stack_pointer = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  event.return_address = reinterpret_cast<std::uint64_t>(__builtin_return_address(0));
  event.ticks = optrace::agent::ticks();
}

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Starts a recording into memory with room for all events of a bench, which nothing reads.
void start_recording(const AgentInterface& agent) {
  constexpr std::uint64_t kBytes = 2ULL << 30;
  const int region = memfd_create("region", MFD_CLOEXEC);
  check(agent.share(region, kBytes), "share");
  close(region);
  check(agent.start(), "start");
}

void bench_hits(const AgentInterface& agent, const char* targets_path) {
  void* const library = dlopen(targets_path, RTLD_NOW);
  auto* const nothing = reinterpret_cast<void (*)()>(dlsym(library, "target_nothing"));
  if (nothing == nullptr) {
    throw std::runtime_error("no target_nothing");
  }
  const optrace::PrivateFolder folder;
  const std::string plan = folder.path() / "plan";
  optrace::test::PlanBuilder(reinterpret_cast<const void*>(nothing))
      .add_plain(reinterpret_cast<const void*>(nothing), 5)
      .save(plan);

  const double bare = cost(nothing);
  const double stamp = cost([] {
    const volatile std::uint64_t now = optrace::agent::ticks();
    static_cast<void>(now);
  });
  const auto call_peer = [nothing] {
    peer_enter(1);
    nothing();
  };
  const double peer = cost(call_peer);
  const double peer_contended = contended_cost(call_peer);

  check(agent.place(plan.c_str(), 1), "place");
  const double idle = cost(nothing);
  start_recording(agent);
  const double fresh = cost(nothing, 1, kFreshCalls);
  check(agent.stop(), "stop");
  start_recording(agent);
  const double recording = cost(nothing);
  check(agent.stop(), "stop");
  start_recording(agent);
  const double contended = contended_cost(nothing);
  check(agent.stop(), "stop");
  check(agent.remove(), "remove");

  check(agent.place(plan.c_str(), 0), "place");
  const double trap_idle = cost(nothing);
  start_recording(agent);
  const double trap = cost(nothing);
  check(agent.stop(), "stop");
  check(agent.remove(), "remove");

  std::printf("one call of an empty function, ns           %8.1f\n", bare);
  std::printf("reading the time-stamp counter, ns           %8.1f\n", stamp);
  std::printf("jump probe, not recording, ns a hit          %8.1f\n", idle - bare);
  std::printf("jump probe, recording, ns a hit              %8.1f\n", recording - bare);
  std::printf("  with a second thread recording, median     %8.1f\n", contended - bare);
  std::printf("  two million in a row, into fresh memory    %8.1f\n", fresh - bare);
  std::printf("peer (shared counter), ns a hit              %8.1f\n", peer - bare);
  std::printf("  with a second thread calling, median       %8.1f\n", peer_contended - bare);
  std::printf("int3 probe, not recording, ns a hit          %8.1f\n", trap_idle - bare);
  std::printf("int3 probe, recording, ns a hit              %8.1f\n", trap - bare);
}

// Measures placing and removing a real plan, in a module that is loaded for it.
void bench_plan(const AgentInterface& agent, const std::string& plan_path) {
  optrace::agent::PageArray<std::uint8_t> bytes;
  optrace::agent::PlanView plan;
  check(optrace::agent::load_plan(plan_path.c_str(), bytes, plan), "reading the plan");
  const std::string module(plan.path, plan.header->path_size);
  if (dlopen(module.c_str(), RTLD_LAZY | RTLD_GLOBAL) == nullptr) {
    throw std::runtime_error(dlerror());
  }
  for (const int use_jumps : {1, 0}) {
    for (const char* const when : {"first", "again"}) {
      auto before = Clock::now();
      const int placed = agent.place(plan_path.c_str(), use_jumps);
      const double place_ms = milliseconds_since(before);
      check(placed, "place");
      before = Clock::now();
      check(agent.remove(), "remove");
      std::printf("%s, %s: %d placed in %.1f ms, removed in %.1f ms\n",
                  use_jumps != 0 ? "jumps" : "int3", when, placed, place_ms,
                  milliseconds_since(before));
    }
  }
  bytes.release();
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count < 3) {
    std::fprintf(stderr, "usage: agent_bench AGENT TARGETS [PLAN...]\n");
    return 2;
  }
  try {
    const AgentInterface agent(arguments[1]);
    bench_hits(agent, arguments[2]);
    for (int i = 3; i < argument_count; ++i) {
      bench_plan(agent, arguments[i]);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "agent_bench: %s\n", error.what());
    return 3;
  }
  return 0;
}

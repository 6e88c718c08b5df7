#include "python/in_process_tracer.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <dlfcn.h>
#include <fmt/core.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/files/descriptor.h"
#include "platform/files/installation.h"
#include "platform/files/private_folder.h"
#include "report/details/known_results.h"
#include "target/build/op_agent.h"
#include "target/interface/agent.h"
#include "target/op_recorder/op_records.h"
#include "tracer/attach/thread_control.h"
#include "tracer/connection/sealed_copy.h"
#include "tracer/connection/target_description.h"
#include "tracer/probes/probe_session.h"

namespace optrace {
namespace {

constexpr const char* kAgain = "Try again. If it fails again, report it with this line.";

/// A library that is never unloaded.
class Library {
 public:
  explicit Library(const std::filesystem::path& path)
      : handle_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) {
      const char* const reason = ::dlerror();
      throw Error(ExitStatus::failed,
                  fmt::format("{} can't be loaded: {}", path.filename().string(),
                              reason == nullptr ? "no reason given" : reason),
                  "Reinstall optrace.");
    }
  }

  template <typename Function>
  void find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(::dlsym(handle_, name));
    if (function == nullptr) {
      throw Error(ExitStatus::failed, fmt::format("the agent has no function {}", name),
                  "Reinstall optrace: its parts have different versions.");
    }
  }

 private:
  void* handle_;
};

/// The functions of target/interface/agent.h, loaded from the library.
struct Agent {
  explicit Agent(const Library& library) {
    library.find(place, "optrace_agent_place");
    library.find(return_limit, "optrace_agent_return_limit");
    library.find(share, "optrace_agent_share");
    library.find(recorder_functions, "optrace_agent_recorder_functions");
    library.find(pause_thread, "optrace_agent_pause_thread");
    library.find(resume_thread, "optrace_agent_resume_thread");
    library.find(serve, "optrace_agent_serve");
    library.find(start, "optrace_agent_start");
    library.find(stop, "optrace_agent_stop");
    library.find(python, "optrace_agent_python");
    library.find(python_frames, "optrace_agent_python_frames");
    library.find(remove, "optrace_agent_remove");
    library.find(read_counters, "optrace_agent_read_counters");
  }

  decltype(optrace_agent_place)* place = nullptr;
  decltype(optrace_agent_return_limit)* return_limit = nullptr;
  decltype(optrace_agent_share)* share = nullptr;
  decltype(optrace_agent_recorder_functions)* recorder_functions = nullptr;
  decltype(optrace_agent_pause_thread)* pause_thread = nullptr;
  decltype(optrace_agent_resume_thread)* resume_thread = nullptr;
  decltype(optrace_agent_serve)* serve = nullptr;
  decltype(optrace_agent_start)* start = nullptr;
  decltype(optrace_agent_stop)* stop = nullptr;
  decltype(optrace_agent_python)* python = nullptr;
  decltype(optrace_agent_python_frames)* python_frames = nullptr;
  decltype(optrace_agent_remove)* remove = nullptr;
  decltype(optrace_agent_read_counters)* read_counters = nullptr;
};

/// The functions of target/op_recorder/op_records.h, loaded from the library.
struct OpRecorder {
  OpRecorder(const Library& library, const Agent& agent) {
    decltype(optrace_ops_use)* use = nullptr;
    library.find(use, "optrace_ops_use");
    library.find(start, "optrace_ops_start");
    library.find(stop, "optrace_ops_stop");
    if (const int result = use(agent.recorder_functions()); result != 0) {
      throw Error(ExitStatus::failed,
                  fmt::format("op records can't be made: {}", describe_errno(-result)), kAgain);
    }
  }

  decltype(optrace_ops_start)* start = nullptr;
  decltype(optrace_ops_stop)* stop = nullptr;
};

/// Retries a call of the agent while it returns -EBUSY. Its functions reject a second caller; here
/// that is the reader thread, which may be placing a plan.
template <typename Call>
int when_free(const Call& call) {
  constexpr int kMaxTries = 20000;
  int result = call();
  for (int i = 0; result == -EBUSY && i < kMaxTries; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    result = call();
  }
  return result;
}

[[noreturn]] void fail(const char* doing, int result) {
  const int number = -result;
  std::string remedy = kAgain;
  if (number == EACCES) {
    remedy =
        "This system forbids programs to change their own code: allow it for this Python (with "
        "SELinux: the boolean selinuxuser_execmod).";
  } else if (number == ENOMEM || number == ENOSPC) {
    remedy = "Free some memory, or request smaller buffers with buffer_bytes.";
  } else if (number == ENXIO) {
    remedy = "A library with planned probes is not loaded: check that import torch works.";
  }
  throw Error(ExitStatus::failed, fmt::format("{} failed: {}", doing, describe_errno(number)),
              remedy);
}

void check(const char* doing, int result) {
  if (result < 0) fail(doing, result);
}

/// Blocks signals. Threads that are started meanwhile inherit this, so that signal handlers run
/// only in the program's own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    // Signals of faults are not blocked: the kernel ends a process that can't take one.
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS})
      sigdelset(&all, fault);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

/// One recording.
struct InProcessTracer::Round {
  /// Synchronizes the reader thread with the thread that the recording belongs to.
  std::mutex mutex;
  std::condition_variable wake;
  bool leave = false;

  std::unique_ptr<Collector> collector;  // Used by the reader thread while it runs.
  std::exception_ptr failure;            // Used by the reader thread while it runs.
  std::unique_ptr<std::thread> reader;

  bool python_frames = false;
  bool op_records = false;
  bool recording = false;               // Started and not stopped yet.
  std::optional<UnblockedTraps> traps;  // While there are probes.
  bool forked = false;  // The process forked meanwhile; the trace does not contain the child.
  std::vector<std::string> warnings;
};

struct InProcessTracer::State {
  pid_t process = ::getpid();
  std::unique_ptr<PrivateFolder> scratch;
  std::unique_ptr<ProbeSession> session;
  std::unique_ptr<Agent> agent;
  std::unique_ptr<OpRecorder> recorder;
  BuiltLibraries op_agent;
  bool op_agent_known = false;
  std::vector<std::filesystem::path> plans;
  std::unique_ptr<Round> round;

  void place_plans();
  void read_until_told();
  void start_reader();
  void stop_reader();
  void add_shortfalls(bool hooked);
  int stop_recording();
};

InProcessTracer::InProcessTracer() : state_(new State) {}

InProcessTracer& InProcessTracer::instance() {
  static auto* const only = new InProcessTracer;
  // The process was forked without Python's fork handlers, so all state here is the parent's.
  if (only->state_->process != ::getpid()) only->after_fork_in_child();
  return *only;
}

bool InProcessTracer::active() const {
  return state_->round != nullptr;
}

void InProcessTracer::prepare(const CurrentTorch& torch, const InProcessOptions& options,
                              const BuildProgress& progress) {
  State& state = *state_;
  if (!state.agent)
    state.agent = std::make_unique<Agent>(Library(library_folder() / "liboptrace_agent.so"));
  if (!state.session) {
    std::vector<std::filesystem::path> modules = torch_libraries(torch.folder, torch.cuda);
    modules.push_back(torch.interpreter);
    auto scratch = std::make_unique<PrivateFolder>();
    auto session =
        std::make_unique<ProbeSession>(scratch->path(), known_results_of_torch(torch.folder));
    state.plans = session->initial_plans(modules);
    state.scratch = std::move(scratch);
    state.session = std::move(session);
  }
  if (options.op_records && !state.op_agent_known) {
    state.op_agent = find_or_build_op_agent(torch.folder, progress);
    state.op_agent_known = true;
    if (!state.op_agent.libraries.empty()) {
      try {
        state.recorder =
            std::make_unique<OpRecorder>(Library(state.op_agent.library()), *state.agent);
      } catch (const Error& error) {
        state.op_agent.missing = fmt::format("Op records are missing: {}.", error.what());
      }
    }
  }
}

void InProcessTracer::State::place_plans() {
  constexpr int kJumpsWhenSafe = 2;
  round->traps.emplace(process);
  check("preparing probes", when_free([&] { return agent->return_limit(kFirstReturns); }));
  for (const std::filesystem::path& plan : plans) {
    const int placed = when_free([&] { return agent->place(plan.c_str(), kJumpsWhenSafe); });
    if (placed == -EPERM) {
      throw Error(ExitStatus::failed,
                  "a thread of this process blocks SIGTRAP, and optrace may not unblock it",
                  "Allow ptrace (in a container: the capability SYS_PTRACE), or trace in a process "
                  "without that thread.");
    }
    if (placed != -EEXIST) check("placing probes", placed);
  }
}

void InProcessTracer::State::read_until_told() {
  const std::uint32_t paused = agent->pause_thread();
  try {
    std::unique_lock lock(round->mutex);
    while (!round->leave) {
      lock.unlock();
      const bool awaited = round->collector->is_awaited();
      const bool more = round->collector->drain(Collector::kBatch) >= Collector::kBatch;
      // With a Python hook, the program places requested plans itself at a safe point.
      if (!round->python_frames) agent->serve();
      lock.lock();
      if (more) continue;
      round->wake.wait_for(lock, awaited ? Collector::kAwaitedPause : Collector::kPause,
                           [this] { return round->leave; });
    }
  } catch (...) {
    round->failure = std::current_exception();
    agent->stop();  // Otherwise the program would wait for this thread.
  }
  agent->resume_thread(paused);
}

void InProcessTracer::State::start_reader() {
  const SignalsBlocked guard;  // The thread inherits the signal mask.
  round->leave = false;
  round->reader = std::make_unique<std::thread>([this] { read_until_told(); });
}

void InProcessTracer::State::stop_reader() {
  if (!round->reader) return;
  {
    const std::lock_guard lock(round->mutex);
    round->leave = true;
    round->wake.notify_one();
  }
  round->reader->join();
  round->reader.reset();
}

void InProcessTracer::State::add_shortfalls(bool hooked) {
  optrace_agent_counters counters{};
  check("reading the counters", when_free([&] { return agent->read_counters(&counters); }));
  std::vector<std::string>& warnings = round->warnings;
  if (counters.no_room != 0) {
    warnings.push_back(
        fmt::format("{} functions could not be probed: no memory is free within 2 GB of their "
                    "library. Frames may be missing.",
                    counters.no_room));
  }
  if (counters.bytes_differ != 0) {
    warnings.push_back(
        fmt::format("{} functions could not be probed: their code in memory differs from the "
                    "library's file. Frames may be missing.",
                    counters.bytes_differ));
  }
  if (!hooked) {
    warnings.push_back(
        "Python frames are missing: this Python's profile hook could not be used, or another "
        "profiler has it.");
  }
}

int InProcessTracer::State::stop_recording() {
  if (!std::exchange(round->recording, false)) return 0;
  const int result =
      when_free([this] { return round->op_records ? recorder->stop() : agent->stop(); });
  if (round->python_frames) when_free([this] { return agent->python(0); });
  return result;
}

void InProcessTracer::start(const InProcessOptions& options) {
  State& state = *state_;
  if (state.round) {
    throw Error(ExitStatus::usage, "a trace is already running in this process",
                "Stop it first: traces can't be nested.");
  }
  const SignalsBlocked guard;
  state.round = std::make_unique<Round>();
  Round& round = *state.round;
  try {
    round.python_frames = options.python_frames;
    round.op_records = options.op_records && state.recorder != nullptr;
    if (options.op_records && !round.op_records) round.warnings.push_back(state.op_agent.missing);
    if (std::string warning = not_kept_warning(state.op_agent); !warning.empty())
      round.warnings.push_back(std::move(warning));
    state.place_plans();
    const Descriptor region = sealed_region(options.buffer_bytes);
    check("allocating memory for the recording",
          when_free([&] { return state.agent->share(region.get(), options.buffer_bytes); }));
    bool hooked = true;
    if (round.python_frames) {
      hooked = when_free([&] { return state.agent->python(1); }) == 0;
      round.python_frames = hooked;
    }
    state.add_shortfalls(hooked);
    const int started = when_free(
        [&] { return round.op_records ? state.recorder->start() : state.agent->start(); });
    // Records the Python frames around the block before the thread is paused, since nothing is
    // recorded of a paused thread. If this fails, only the names of parents are missing.
    if (started >= 0 && round.python_frames && options.outer_frames) state.agent->python_frames();
    const std::uint32_t paused = state.agent->pause_thread();
    check("recording", started);
    round.recording = true;
    round.collector = std::make_unique<Collector>(region.get(), *state.session, options.collector);
    state.start_reader();
    state.agent->resume_thread(paused);
  } catch (...) {
    abandon();
    throw;
  }
}

void InProcessTracer::stop() {
  State& state = *state_;
  const std::uint32_t paused = state.agent->pause_thread();
  state.stop_recording();
  state.agent->resume_thread(paused);
}

void InProcessTracer::finish() {
  State& state = *state_;
  state.stop_reader();
  if (state.round->failure) std::rethrow_exception(state.round->failure);
  state.round->collector->finish();
}

std::vector<std::string> InProcessTracer::ops() const {
  return state_->round->collector->ops();
}

Trace InProcessTracer::take(TraceMeta meta) {
  State& state = *state_;
  meta.warnings = state.round->warnings;
  if (!state.round->python_frames) ++meta.shortfalls["python_frames_off"];
  if (state.round->forked) meta.untraced_children = true;
  optrace_agent_counters counters{};
  when_free([&] { return state.agent->read_counters(&counters); });
  meta.probes.mode = counters.jumps != 0 ? "jump" : "int3";
  Trace trace = state.round->collector->take(std::move(meta));
  keep_names_that_occur(trace);
  abandon();
  return trace;
}

void InProcessTracer::abandon() noexcept {
  State& state = *state_;
  if (!state.round) return;
  state.stop_recording();
  state.stop_reader();
  when_free([&] { return state.agent->remove(); });
  state.round.reset();
}

void InProcessTracer::close() noexcept {
  abandon();
  delete std::exchange(state_, std::make_unique<State>().release());
}

void InProcessTracer::before_fork() noexcept {
  if (!state_->round) return;
  state_->round->forked = true;
  state_->stop_reader();
}

void InProcessTracer::after_fork_in_parent() noexcept {
  if (!state_->round || !state_->round->recording || state_->round->failure) return;
  try {
    state_->start_reader();
  } catch (...) {
    state_->round->failure = std::current_exception();
  }
}

void InProcessTracer::after_fork_in_child() noexcept {
  State& state = *state_;
  if (state.process == ::getpid()) return;
  if (state.round) {
    state.stop_recording();
    when_free([&] { return state.agent->remove(); });
  }
  // The old state is leaked, since its folder and its thread belong to the parent.
  state_ = std::make_unique<State>().release();
}

}  // namespace optrace

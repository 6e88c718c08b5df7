#include "target/interface/agent.h"

#include <atomic>
#include <cerrno>
#include <ctime>

#include <pthread.h>
#include <unistd.h>

#include "target/agent/callers/callers.h"
#include "target/agent/callers/frame_modules.h"
#include "target/agent/placed_plans.h"
#include "target/agent/probes/return_probes.h"
#include "target/agent/probes/signal_calls.h"
#include "target/agent/probes/text_patch.h"
#include "target/agent/probes/trap_handler.h"
#include "target/agent/probes/trap_table.h"
#include "target/agent/process/fork_lock.h"
#include "target/agent/process/import_redirect.h"
#include "target/agent/process/patching.h"
#include "target/agent/process/safe_point.h"
#include "target/agent/process/threads.h"
#include "target/agent/python/python_events.h"
#include "target/agent/python/why_not_variables.h"
#include "target/agent/recording.h"
#include "target/agent/recording/event_buffer.h"
#include "target/agent/recording/module_sections.h"
#include "target/agent/recording/op_record_store.h"
#include "target/agent/recording/python_calls.h"
#include "target/agent/recording/reader_requests.h"
#include "target/agent/recording/region.h"
#include "target/interface/recorder.h"

using namespace optrace;
using namespace optrace::agent;

namespace {

std::uint32_t plan_done = 0;  // Value of the reader's plan_requested that was served last.

std::atomic<bool> entered = false;  // True after optrace_agent_enter.
int entered_with = -1;              // Descriptor passed to optrace_agent_enter.

std::atomic_flag busy = ATOMIC_FLAG_INIT;

// Allows one call at a time. A second caller gets an error instead of waiting: a debugger may have
// injected it into this process while the thread that holds the lock is stopped.
class TryLock {
 public:
  TryLock() : entered_(!busy.test_and_set(std::memory_order_acquire)) {}
  ~TryLock() {
    if (entered_) busy.clear(std::memory_order_release);
  }
  TryLock(const TryLock&) = delete;
  TryLock& operator=(const TryLock&) = delete;

  explicit operator bool() const { return entered_; }

 private:
  bool entered_;
};

void sleep_briefly() {
  constexpr timespec kMillisecond{0, 1'000'000};
  nanosleep(&kMillisecond, nullptr);
}

std::atomic_flag reporting_modules = ATOMIC_FLAG_INIT;

// Lets one thread at a time report to the reader which modules it has loaded. Another one waits,
// because its modules may be among them.
class ModuleReportLock {
 public:
  ModuleReportLock() {
    while (reporting_modules.test_and_set(std::memory_order_acquire)) sleep_briefly();
  }
  ~ModuleReportLock() { reporting_modules.clear(std::memory_order_release); }
  ModuleReportLock(const ModuleReportLock&) = delete;
  ModuleReportLock& operator=(const ModuleReportLock&) = delete;
};

bool patching_for_fork = false;  // Only one thread forks at a time.

void before_fork() {
  patching_for_fork = begin_patching();
  lock_for_fork();
}

void after_fork_in_parent() {
  unlock_after_fork();
  if (patching_for_fork) end_patching();
}

// A forked child records nothing and has no recording. It keeps the probes unless it was forked
// from an entered process, in which case nothing else would remove them. Its lock is released even
// if another thread of the parent held it.
void after_fork_in_child() {
  unlock_after_fork();
  adopt_signal_calls();
  end_patching();
  end_round();
  busy.clear();
  reporting_modules.clear();
  leave_live_calls_to_parent();
  if (entered.exchange(false)) {
    close(entered_with);
    reset_python_events();
    optrace_agent_remove();
    drop_region();
  }
}

bool watch_forks() {
  static bool watching = false;
  if (!watching)
    watching = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
  return watching;
}

int place_plan(const char* file, const char* plan_path, Jumps jumps) {
  PageArray<std::uint8_t> bytes;
  PlanView view;
  const int result = load_plan(file, bytes, view);
  if (result != 0) return result;
  if (!make_switch() || !make_caller_tables() || !watch_forks()) {
    bytes.release();
    return -ENOMEM;
  }
  return place_loaded_plan(bytes, view, plan_path, jumps);
}

// Places the plans that the reader has for the modules that were reported last. Waits as
// reader_requests.h says.
void wait_for_plans(recording::RegionHeader& header) {
  const std::uint32_t reported = __atomic_load_n(&header.modules_reported, __ATOMIC_RELAXED);
  constexpr int kMaxNaps = 2000;  // In milliseconds.
  constexpr int kMaxStill = 1000;
  std::uint32_t heartbeat = __atomic_load_n(&header.heartbeat, __ATOMIC_ACQUIRE);
  for (int naps = 0, still = 0; naps < kMaxNaps && still < kMaxStill; ++naps) {
    if (reader_wants_something()) serve_reader();
    if (running_round() == 0 || __atomic_load_n(&header.modules_seen, __ATOMIC_ACQUIRE) == reported)
      return;
    sleep_briefly();
    const std::uint32_t beat = __atomic_load_n(&header.heartbeat, __ATOMIC_ACQUIRE);
    still = beat == heartbeat ? still + 1 : 0;
    heartbeat = beat;
  }
}

// Waits for the plans of libraries that Inductor had generated before recording began.
void wait_for_first_plans() {
  const ModuleReportLock lock;
  Region* const region = current_region();
  if (region != nullptr && running_round() != 0) wait_for_plans(*region->header);
}

int start_recording() {
  const TryLock call;
  if (!call) return -EBUSY;
  if (running_round() != 0) return -EALREADY;
  if (!region_is_usable()) return -ENODATA;
  if (!make_switch() || !make_caller_tables() || !watch_forks() || !list_frame_modules())
    return -ENOMEM;
  begin_recording(*current_region());
  return 0;
}

// Places the plan that the reader requests.
void place_requested(recording::RegionHeader& header, std::uint32_t request) {
  char path[recording::kMaxPlanPathLength];
  for (std::uint32_t i = 0; i < sizeof(path); ++i)
    path[i] = __atomic_load_n(&header.plan_path[i], __ATOMIC_RELAXED);
  path[sizeof(path) - 1] = '\0';
  header.plan_result = place_plan(path, path, Jumps::when_safe);
  plan_done = request;
  __atomic_store_n(&header.plan_done, request, __ATOMIC_RELEASE);
}

}  // namespace

namespace optrace::agent {

bool reader_wants_something() {
  if (frame_modules_outdated()) list_frame_modules();
  const Region* const region = current_region();
  return region != nullptr && running_round() != 0 &&
         (__atomic_load_n(&region->header->stop, __ATOMIC_ACQUIRE) != 0 ||
          __atomic_load_n(&region->header->plan_requested, __ATOMIC_ACQUIRE) != plan_done);
}

int serve_reader() {
  const TryLock call;
  if (!call) return -EBUSY;
  if (!reader_wants_something()) return 0;
  recording::RegionHeader& header = *current_region()->header;
  if (__atomic_load_n(&header.stop, __ATOMIC_ACQUIRE) != 0) {
    end_recording(*current_region());
    return 0;
  }
  const Unrecorded guard;
  place_requested(header, __atomic_load_n(&header.plan_requested, __ATOMIC_ACQUIRE));
  return header.plan_result;
}

void tell_loaded_modules() {
  const ModuleReportLock lock;
  Region* const region = current_region();
  if (region != nullptr && running_round() != 0 && put_new_modules(*region)) {
    __atomic_add_fetch(&region->header->modules_reported, 1, __ATOMIC_RELEASE);
    wait_for_plans(*region->header);
  }
}

}  // namespace optrace::agent

int optrace_agent_place(const char* plan_path, int use_jumps) {
  return optrace_agent_place_from(plan_path, plan_path, use_jumps);
}

int optrace_agent_place_from(const char* file, const char* plan_path, int use_jumps) {
  const TryLock call;
  const Jumps jumps = use_jumps == 0   ? Jumps::none
                      : use_jumps == 2 ? Jumps::when_safe
                                       : Jumps::at_once;
  return call ? place_plan(file, plan_path, jumps) : -EBUSY;
}

int optrace_agent_start() {
  const int result = start_recording();
  if (result == 0) wait_for_first_plans();
  return result;
}

int optrace_agent_stop() {
  const TryLock call;
  if (!call) return -EBUSY;
  if (running_round() == 0) return -EALREADY;
  end_recording(*current_region());
  return 0;
}

int optrace_agent_share(int fd, std::uint64_t bytes) {
  const TryLock call;
  if (!call || running_round() != 0) return -EBUSY;
  if (fd < 0) {
    drop_region();
    return 0;
  }
  const int result = use_region(fd, bytes);
  plan_done = result == 0 ? 0 : plan_done;
  return result;
}

int optrace_agent_note(std::uint32_t kind, std::uint32_t record, std::uint64_t number,
                       std::uint64_t thread) {
  if ((kind < recording::kOpBegin || kind > recording::kNodeEnd) &&
      (kind < recording::kCallRecord || kind > recording::kDeviceActivity)) {
    return -EINVAL;
  }
  const std::uint32_t round = running_round();
  if (round == 0) return -ENODATA;
  if (kind == recording::kDeviceCall || (kind == recording::kCallRecord && number != 0)) {
    const auto frame = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
    const std::uint64_t known = put_callers_of_library(frame, round);
    const std::uint64_t ended = known != 0 ? known : ended_up_to(number);
    (kind == recording::kDeviceCall ? number : thread) = ended;
  }
  record_event(round, kind, record, number, thread);
  return 0;
}

std::uint32_t optrace_agent_new_record() {
  return new_op_record();
}

std::uint32_t optrace_agent_recording() {
  return running_round();
}

int optrace_agent_keep_record(std::uint32_t id, const char* text, std::uint64_t size) {
  return keep_op_record(id, text, size) ? 0 : -ENOSPC;
}

std::uint32_t optrace_agent_pause_thread() {
  return pause_thread();
}

void optrace_agent_resume_thread(std::uint32_t paused) {
  resume_thread(paused);
}

int optrace_agent_serve() {
  return serve_reader();
}

int optrace_agent_python(int on) {
  const TryLock call;
  return call ? set_python_events(on != 0) : -EBUSY;
}

int optrace_agent_python_missing() {
  const TryLock call;
  return call ? look_for_missing_python() : -EBUSY;
}

int optrace_agent_python_frames() {
  const TryLock call;
  return call ? record_live_python() : -EBUSY;
}

int optrace_agent_redirect(const void* inside, const optrace_agent_redirection* redirections,
                           std::uint32_t count) {
  const TryLock call;
  if (!call) return -EBUSY;
  if (!watch_forks()) return -ENOMEM;
  const Patching guard;
  return redirect_imports(inside, redirections, count);
}

int optrace_agent_redirect_loaded(const void* inside, const optrace_agent_redirection* redirections,
                                  std::uint32_t count) {
  const TryLock call;
  if (!call) return -EBUSY;
  const Patching guard;
  return are_in_use(redirections, count) ? redirect_imports(inside, redirections, count) : 0;
}

int optrace_agent_restore(const optrace_agent_redirection* redirections, std::uint32_t count) {
  const TryLock call;
  if (!call) return -EBUSY;
  const Patching guard;
  return restore_imports(redirections, count);
}

int optrace_agent_remove() {
  const TryLock call;
  if (!call) return -EBUSY;
  const Patching guard;
  const int restored = restore_imports(nullptr, 0);
  if (restored < 0) return restored;
  bool all_out = restored == 0;
  const int result = remove_plans(all_out);
  if (result != 0) return result;
  if (!all_out) return -EBUSY;
  restore_trap_handler(false);
  const bool idle = running_round() == 0;
  if (idle) {
    clear_op_records();
    clear_why_not_records();
  }
  if (idle && only_thread()) {
    clear_traps();
    clear_return_probes();
    clear_plans();
  }
  return 0;
}

int optrace_agent_enter(int fd) {
  const TryLock call;
  if (!call) return -EBUSY;
  const bool others = running_round() != 0 || any_plan_placed();
  if (others || !watch_forks()) return others ? -EBUSY : -ENOMEM;
  if (entered) return -EBUSY;
  entered_with = fd;
  entered = true;
  return 0;
}

int optrace_agent_leave() {
  {
    const TryLock call;
    if (!call || !entered) return call ? -EINVAL : -EBUSY;
    if (running_round() != 0) end_recording(*current_region());
  }
  const int removed = optrace_agent_remove();
  {
    const TryLock call;
    if (!call) return -EBUSY;
    drop_region();
    if (removed == 0) restore_trap_handler(others_make_system_calls());
    set_python_events(false);
    entered = false;
  }
  return removed;
}

namespace {

int (*start_requested)() = nullptr;

int start_with_python() {
  const bool hooked = set_python_events(true) == 0;
  const int started = start_requested();
  if (started < 0) {
    set_python_events(false);
    return started;
  }
  if (hooked) record_live_python();
  return hooked ? 1 : 0;
}

}  // namespace

int optrace_agent_start_on_main_thread(int (*start)(void), std::uint64_t milliseconds) {
  start_requested = start;
  leave_this_thread_out();
  return call_at_safe_point(start_with_python, milliseconds);
}

int optrace_agent_return_limit(std::uint32_t hits) {
  const TryLock call;
  if (!call || running_round() != 0) return -EBUSY;
  limit_return_probes(hits);
  return 0;
}

int optrace_agent_callers(int on) {
  const TryLock call;
  if (!call || running_round() != 0) return -EBUSY;
  record_callers(on != 0);
  return 0;
}

int optrace_agent_every_python_call(int on) {
  const TryLock call;
  if (!call || running_round() != 0) return -EBUSY;
  record_every_python_call(on != 0);
  return 0;
}

int optrace_agent_read_counters(optrace_agent_counters* counters) {
  const TryLock call;
  if (!call) return -EBUSY;
  *counters = {};
  count_probes(*counters);
  counters->left_behind += imports_left_behind();
  const Region* const region = current_region();
  counters->lost = region == nullptr ? 0 : __atomic_load_n(&region->lost, __ATOMIC_RELAXED);
  return 0;
}

const optrace_recorder_functions* optrace_agent_recorder_functions() {
  static constexpr optrace_recorder_functions kFunctions{
      .note = optrace_agent_note,
      .new_record = optrace_agent_new_record,
      .keep_record = optrace_agent_keep_record,
      .recording = optrace_agent_recording,
      .pause_thread = optrace_agent_pause_thread,
      .resume_thread = optrace_agent_resume_thread,
      .redirect = optrace_agent_redirect,
      .redirect_loaded = optrace_agent_redirect_loaded,
      .restore = optrace_agent_restore,
      .start = optrace_agent_start,
      .stop = optrace_agent_stop,
  };
  return &kFunctions;
}

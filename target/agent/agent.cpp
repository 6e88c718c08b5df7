#include "target/interface/agent.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>

#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/agent/callers/callers.h"
#include "target/agent/callers/frame_modules.h"
#include "target/agent/callers/initial_stack.h"
#include "target/agent/probes/placed_plan.h"
#include "target/agent/probes/return_probes.h"
#include "target/agent/probes/text_patch.h"
#include "target/agent/probes/trap_handler.h"
#include "target/agent/probes/trap_table.h"
#include "target/agent/process/fork_lock.h"
#include "target/agent/process/import_redirect.h"
#include "target/agent/process/patching.h"
#include "target/agent/process/safe_point.h"
#include "target/agent/process/system_calls.h"
#include "target/agent/process/threads.h"
#include "target/agent/python/python_events.h"
#include "target/agent/python/why_not_variables.h"
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

constexpr std::uint32_t kMaxPlans = 1024;

// None of these objects has a destructor, because threads may be in probes until the process ends.
PlacedPlan plans[kMaxPlans];
std::uint32_t plan_count = 0;
std::uint32_t next_id = 0;
std::uint32_t plan_done = 0;  // Value of the reader's plan_wanted that was served last.

recording::InitialFrame initial_frames[kMaxInitialFrames];

std::atomic<bool> entered = false;  // True after optrace_agent_enter.
int entered_with = -1;              // Descriptor passed to optrace_agent_enter.

std::atomic_flag busy = ATOMIC_FLAG_INIT;

// Allows one call at a time. A second caller gets an error instead of waiting: a debugger may have
// injected it into this process while the thread that holds the lock is stopped.
class OnlyCall {
 public:
  OnlyCall() : entered_(!busy.test_and_set(std::memory_order_acquire)) {}
  ~OnlyCall() {
    if (entered_) {
      busy.clear(std::memory_order_release);
    }
  }
  OnlyCall(const OnlyCall&) = delete;
  OnlyCall& operator=(const OnlyCall&) = delete;

  explicit operator bool() const { return entered_; }

 private:
  bool entered_;
};

void nap() {
  constexpr timespec kMillisecond{0, 1'000'000};
  nanosleep(&kMillisecond, nullptr);
}

std::atomic_flag telling = ATOMIC_FLAG_INIT;

// Lets one thread at a time tell the reader which modules it has loaded. Another one waits, because
// its modules may be among them.
class Telling {
 public:
  Telling() {
    while (telling.test_and_set(std::memory_order_acquire)) {
      nap();
    }
  }
  ~Telling() { telling.clear(std::memory_order_release); }
  Telling(const Telling&) = delete;
  Telling& operator=(const Telling&) = delete;
};

bool patching_for_fork = false;  // Only one thread forks at a time.

void before_fork() {
  patching_for_fork = begin_patching();
  lock_for_fork();
}

void after_fork_in_parent() {
  unlock_after_fork();
  if (patching_for_fork) {
    end_patching();
  }
}

// A forked child records nothing and has no recording. It keeps the probes unless it was forked
// from an entered process, in which case nothing else would remove them. Its lock is released even
// if another thread of the parent held it.
void after_fork_in_child() {
  unlock_after_fork();
  end_patching();
  end_round();
  busy.clear();
  telling.clear();
  if (entered.exchange(false)) {
    close(entered_with);
    forget_python_events();
    optrace_agent_remove();
    drop_region();
  }
}

bool watch_forks() {
  static bool watching = false;
  if (!watching) {
    watching = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
  }
  return watching;
}

// The time-stamp counter and CLOCK_MONOTONIC.
struct Clocks {
  std::uint64_t ticks;
  std::uint64_t nanoseconds;
};

Clocks read_clocks() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return {ticks(), static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
                       static_cast<std::uint64_t>(now.tv_nsec)};
}

// Returns the entry of `plans` for the same plan and module, or null.
PlacedPlan* find_plan(const PlanView& view, const LoadedModule& module) {
  for (std::uint32_t i = 0; i < plan_count; ++i) {
    if (plans[i].module.bias == module.bias && plans[i].module.build_id == module.build_id &&
        std::memcmp(plans[i].view.header, view.header, sizeof(plan::Header)) == 0) {
      return &plans[i];
    }
  }
  return nullptr;
}

bool set_path(PlacedPlan& plan, const char* path) {
  const std::size_t size = std::strlen(path) + 1;
  PageArray<char> copy;
  if (!copy.allocate(size)) {
    return false;
  }
  std::memcpy(copy.data, path, size);
  plan.path.release();
  plan.path = copy;
  return true;
}

// Fills a new entry of `plans` from a loaded plan and writes its slots. Takes ownership of `bytes`.
int prepare_plan(const PageArray<std::uint8_t>& bytes, const PlanView& view,
                 const LoadedModule& module, const char* path, PlacedPlan*& prepared) {
  const std::uint32_t probes = view.header->probe_count;
  if (plan_count == kMaxPlans || probes >= recording::kFirstPythonEvent - next_id) {
    return -ENOSPC;
  }
  PlacedPlan& plan = plans[plan_count];
  plan = PlacedPlan{};
  if (!set_path(plan, path)) {
    return -ENOMEM;
  }
  const int result = write_slots(view, module, next_id, plan.slab);
  if (result != 0) {
    plan.path.release();
    return result;
  }
  plan.bytes = bytes;
  plan.view = view;
  plan.module = module;
  plan.first_id = next_id;
  next_id += probes;
  ++plan_count;
  prepared = &plan;
  return 0;
}

std::uint32_t count_placed(const PlacedPlan& plan) {
  std::uint32_t placed = 0;
  for (std::uint32_t i = 0; i < plan.view.header->probe_count; ++i) {
    const ProbeState state = plan.slab.slots[i].state;
    placed += state == ProbeState::trap || state == ProbeState::jump ? 1 : 0;
  }
  return placed;
}

// Writes the plan's event ids to the region for its reader.
void describe(PlacedPlan& plan, Region& region) {
  if (plan.described_region != region.serial) {
    const auto path_size = static_cast<std::uint32_t>(std::strlen(plan.path.data));
    const SignalsBlocked guard;
    void* const section = begin_section(region, sizeof(recording::ProbeRange) + path_size);
    if (section == nullptr) {
      return;
    }
    plan.range = new (section) recording::ProbeRange{plan.first_id, plan.view.header->probe_count,
                                                     plan.placed_count, path_size};
    std::memcpy(static_cast<char*>(section) + sizeof(recording::ProbeRange), plan.path.data,
                path_size);
    complete_section(section, recording::SectionKind::probes);
    plan.described_region = region.serial;
  }
  __atomic_store_n(&plan.range->placed, plan.placed_count, __ATOMIC_RELEASE);
}

void describe_if_recording(PlacedPlan& plan) {
  if (running_round() != 0) {
    describe(plan, *current_region());
  }
}

void put_initial_stack(Region& region, std::uint32_t round) {
  const std::uint32_t count = take_initial_stack(initial_frames, kMaxInitialFrames);
  const recording::InitialStack stack{static_cast<std::uint64_t>(syscall(SYS_gettid)), count};
  const std::uint64_t frames_size = count * sizeof(recording::InitialFrame);
  const SignalsBlocked guard;
  void* const section = begin_section(region, sizeof(stack) + frames_size);
  if (section != nullptr) {
    std::memcpy(section, &stack, sizeof(stack));
    std::memcpy(static_cast<char*>(section) + sizeof(stack), initial_frames, frames_size);
    complete_section(section, recording::SectionKind::initial_stack, round);
  }
}

void stop_recording() {
  end_round();
  recording::RegionHeader& header = *current_region()->header;
  const Clocks stop = read_clocks();
  __atomic_store_n(&header.stop_nanoseconds, stop.nanoseconds, __ATOMIC_RELAXED);
  __atomic_store_n(&header.stop_ticks, stop.ticks, __ATOMIC_RELEASE);
  put_modules(*current_region());
  __atomic_store_n(&header.recording, 0, __ATOMIC_RELEASE);
}

int patch_in(PlacedPlan& plan, Jumps jumps) {
  plan.placed_count = 0;
  describe_if_recording(plan);  // Must precede the plan's events.
  const std::uint32_t probes = plan.view.header->probe_count;
  if (jumps != Jumps::at_once && !all_take_traps()) {
    return -EPERM;
  }
  const Patching guard;
  if (!reserve_traps(probes)) {
    return -ENOMEM;
  }
  for (std::uint32_t i = 0; i < probes; ++i) {
    if (plan.slab.slots[i].offset != 0) {
      add_trap(plan.view.probes[i].address + plan.module.bias, plan.slab.address(i));
    }
  }
  int result = install_trap_handler();
  if (result == 0) {
    plan.pin = dlopen(plan.module.name, RTLD_LAZY | RTLD_NOLOAD);
    result = place_probes(plan.view, plan.module, jumps, plan.slab);
  }
  if (result != 0) {
    return result;
  }
  plan.placed = true;
  plan.placed_count = count_placed(plan);
  add_return_probes(plan);
  if (plan.view.header->fork_lock != 0) {
    wait_for_when_forking(plan.module, plan.view.header->fork_lock);
  }
  add_probed_module(plan.module.first, plan.module.last);
  for (const plan::Piece& piece : plan.view.header->evaluation_loop) {
    if (piece.last > piece.first) {
      add_evaluation_loop(plan.module.bias + piece.first, plan.module.bias + piece.last);
    }
  }
  describe_if_recording(plan);
  return static_cast<int>(plan.placed_count);
}

void unpin(PlacedPlan& plan) {
  if (plan.pin != nullptr) {
    dlclose(plan.pin);
    plan.pin = nullptr;
  }
}

bool find_module_of(const PlanView& view, LoadedModule& module) {
  const Patching guard;
  return find_module(view.header->build_id, view.header->build_id_size, view.path,
                     view.header->path_size, module);
}

int place_plan(const char* file, const char* plan_path, Jumps jumps) {
  PageArray<std::uint8_t> bytes;
  PlanView view;
  int result = load_plan(file, bytes, view);
  if (result != 0) {
    return result;
  }
  LoadedModule module;
  if (!make_switch() || !make_caller_tables() || !watch_forks()) {
    result = -ENOMEM;
  } else if (!find_module_of(view, module)) {
    result = -ENXIO;
  }
  PlacedPlan* plan = result == 0 ? find_plan(view, module) : nullptr;
  if (plan != nullptr) {
    result = plan->placed ? -EEXIST : 0;
    result = result == 0 && !set_path(*plan, plan_path) ? -ENOMEM : result;
    bytes.release();
  } else if (result == 0) {
    result = prepare_plan(bytes, view, module, plan_path, plan);
  }
  if (result != 0) {
    bytes.release();
    return result;
  }
  return patch_in(*plan, jumps);
}

// Places the plans that the reader has for the modules of which it was told last. Waits as
// reader_requests.h says.
void wait_for_plans(recording::RegionHeader& header) {
  const std::uint32_t told = __atomic_load_n(&header.modules_told, __ATOMIC_RELAXED);
  constexpr int kMaxNaps = 2000;  // In milliseconds.
  constexpr int kMaxStill = 1000;
  std::uint32_t heartbeat = __atomic_load_n(&header.heartbeat, __ATOMIC_ACQUIRE);
  for (int naps = 0, still = 0; naps < kMaxNaps && still < kMaxStill; ++naps) {
    if (reader_wants_something()) {
      serve_reader();
    }
    if (running_round() == 0 || __atomic_load_n(&header.modules_seen, __ATOMIC_ACQUIRE) == told) {
      return;
    }
    nap();
    const std::uint32_t beat = __atomic_load_n(&header.heartbeat, __ATOMIC_ACQUIRE);
    still = beat == heartbeat ? still + 1 : 0;
    heartbeat = beat;
  }
}

// Waits for the plans of libraries that Inductor had generated before recording began.
void wait_for_first_plans() {
  const Telling turn;
  Region* const region = current_region();
  if (region != nullptr && running_round() != 0) {
    wait_for_plans(*region->header);
  }
}

int start_recording() {
  const OnlyCall call;
  if (!call) {
    return -EBUSY;
  }
  if (running_round() != 0) {
    return -EALREADY;
  }
  if (!region_is_usable()) {
    return -ENODATA;
  }
  if (!make_switch() || !make_caller_tables() || !watch_forks() || !list_frame_modules()) {
    return -ENOMEM;
  }
  forget_callers();
  Region& region = *current_region();
  const std::uint32_t round = next_round();
  for (std::uint32_t i = 0; i < plan_count; ++i) {
    if (plans[i].placed) {
      describe(plans[i], region);
    }
  }
  put_initial_stack(region, round);
  put_op_records(region);
  put_modules(region);
  recording::RegionHeader& header = *region.header;
  if (has_generated_library()) {
    __atomic_add_fetch(&header.modules_told, 1, __ATOMIC_RELEASE);
  }
  const Clocks start = read_clocks();
  __atomic_store_n(&header.start_ticks, start.ticks, __ATOMIC_RELAXED);
  __atomic_store_n(&header.start_nanoseconds, start.nanoseconds, __ATOMIC_RELAXED);
  __atomic_store_n(&header.stop_ticks, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&header.stop_nanoseconds, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&header.python_missing, python_events_failed() ? recording::kNoPythonEvents : 0,
                   __ATOMIC_RELAXED);
  __atomic_store_n(&region.lost, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&header.recording, 1, __ATOMIC_RELEASE);
  begin_round();
  return 0;
}

// Places the plan that the reader requests.
void place_wanted(recording::RegionHeader& header, std::uint32_t wanted) {
  char path[recording::kMaxPlanPathLength];
  for (std::uint32_t i = 0; i < sizeof(path); ++i) {
    path[i] = __atomic_load_n(&header.plan_path[i], __ATOMIC_RELAXED);
  }
  path[sizeof(path) - 1] = '\0';
  header.plan_result = place_plan(path, path, Jumps::when_safe);
  plan_done = wanted;
  __atomic_store_n(&header.plan_done, wanted, __ATOMIC_RELEASE);
}

}  // namespace

namespace optrace::agent {

bool reader_wants_something() {
  if (frame_modules_outdated()) {
    list_frame_modules();
  }
  const Region* const region = current_region();
  return region != nullptr && running_round() != 0 &&
         (__atomic_load_n(&region->header->stop, __ATOMIC_ACQUIRE) != 0 ||
          __atomic_load_n(&region->header->plan_wanted, __ATOMIC_ACQUIRE) != plan_done);
}

int serve_reader() {
  const OnlyCall call;
  if (!call) {
    return -EBUSY;
  }
  if (!reader_wants_something()) {
    return 0;
  }
  recording::RegionHeader& header = *current_region()->header;
  if (__atomic_load_n(&header.stop, __ATOMIC_ACQUIRE) != 0) {
    stop_recording();
    return 0;
  }
  const Unrecorded guard;
  place_wanted(header, __atomic_load_n(&header.plan_wanted, __ATOMIC_ACQUIRE));
  return header.plan_result;
}

void tell_loaded_modules() {
  const Telling turn;
  Region* const region = current_region();
  if (region != nullptr && running_round() != 0 && put_new_modules(*region)) {
    __atomic_add_fetch(&region->header->modules_told, 1, __ATOMIC_RELEASE);
    wait_for_plans(*region->header);
  }
}

}  // namespace optrace::agent

void PlacedPlan::release() {
  slab.release();
  bytes.release();
  path.release();
  *this = PlacedPlan{};
}

int optrace_agent_place(const char* plan_path, int use_jumps) {
  return optrace_agent_place_from(plan_path, plan_path, use_jumps);
}

int optrace_agent_place_from(const char* file, const char* plan_path, int use_jumps) {
  const OnlyCall call;
  const Jumps jumps = use_jumps == 0   ? Jumps::none
                      : use_jumps == 2 ? Jumps::when_safe
                                       : Jumps::at_once;
  return call ? place_plan(file, plan_path, jumps) : -EBUSY;
}

int optrace_agent_start() {
  const int result = start_recording();
  if (result == 0) {
    wait_for_first_plans();
  }
  return result;
}

int optrace_agent_stop() {
  const OnlyCall call;
  if (!call) {
    return -EBUSY;
  }
  if (running_round() == 0) {
    return -EALREADY;
  }
  stop_recording();
  return 0;
}

int optrace_agent_share(int fd, std::uint64_t bytes) {
  const OnlyCall call;
  if (!call || running_round() != 0) {
    return -EBUSY;
  }
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
  if (round == 0) {
    return -ENODATA;
  }
  if (kind == recording::kDeviceCall || (kind == recording::kCallRecord && number != 0)) {
    const auto frame = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
    const std::uint64_t known = note_callers_of_library(frame, round);
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
  const OnlyCall call;
  return call ? set_python_events(on != 0) : -EBUSY;
}

int optrace_agent_python_missing() {
  const OnlyCall call;
  return call ? look_for_missing_python() : -EBUSY;
}

int optrace_agent_python_frames() {
  const OnlyCall call;
  return call ? record_live_python() : -EBUSY;
}

int optrace_agent_redirect(const void* inside, const optrace_agent_redirection* redirections,
                           std::uint32_t count) {
  const OnlyCall call;
  if (!call) {
    return -EBUSY;
  }
  if (!watch_forks()) {
    return -ENOMEM;
  }
  const Patching guard;
  return redirect_imports(inside, redirections, count);
}

int optrace_agent_redirect_loaded(const void* inside, const optrace_agent_redirection* redirections,
                                  std::uint32_t count) {
  const OnlyCall call;
  if (!call) {
    return -EBUSY;
  }
  const Patching guard;
  return are_in_use(redirections, count) ? redirect_imports(inside, redirections, count) : 0;
}

int optrace_agent_restore(const optrace_agent_redirection* redirections, std::uint32_t count) {
  const OnlyCall call;
  if (!call) {
    return -EBUSY;
  }
  const Patching guard;
  return restore_imports(redirections, count);
}

int optrace_agent_remove() {
  const OnlyCall call;
  if (!call) {
    return -EBUSY;
  }
  const Patching guard;
  const int restored = restore_imports(nullptr, 0);
  if (restored < 0) {
    return restored;
  }
  bool all_out = restored == 0;
  // In reverse order, because a later plan may have been placed over bytes that an earlier one left
  // behind.
  for (std::uint32_t i = plan_count; i-- > 0;) {
    PlacedPlan& plan = plans[i];
    if (!plan.placed) {
      continue;
    }
    if (still_loaded(plan.module)) {
      const int result = remove_probes(plan.view, plan.module, plan.slab);
      if (result != 0) {
        return result;
      }
      for (std::uint32_t j = 0; j < plan.view.header->probe_count; ++j) {
        all_out = all_out && plan.slab.slots[j].state != ProbeState::left_behind;
      }
    }
    plan.placed = false;
    unpin(plan);
  }
  if (!all_out) {
    return -EBUSY;
  }
  restore_trap_handler(false);
  const bool idle = running_round() == 0;
  if (idle) {
    forget_op_records();
    forget_why_not_records();
  }
  if (idle && only_thread()) {
    forget_traps();
    forget_return_probes();
    while (plan_count > 0) {
      plans[--plan_count].release();
    }
    next_id = 0;
  }
  return 0;
}

int optrace_agent_enter(int fd) {
  const OnlyCall call;
  if (!call) {
    return -EBUSY;
  }
  bool others = running_round() != 0;
  for (std::uint32_t i = 0; i < plan_count; ++i) {
    others = others || plans[i].placed;
  }
  if (others || !watch_forks()) {
    return others ? -EBUSY : -ENOMEM;
  }
  if (entered) {
    return -EBUSY;
  }
  entered_with = fd;
  entered = true;
  return 0;
}

int optrace_agent_leave() {
  {
    const OnlyCall call;
    if (!call || !entered) {
      return call ? -EINVAL : -EBUSY;
    }
    if (running_round() != 0) {
      stop_recording();
    }
  }
  const int removed = optrace_agent_remove();
  {
    const OnlyCall call;
    if (!call) {
      return -EBUSY;
    }
    drop_region();
    if (removed == 0) {
      restore_trap_handler(others_make_system_calls());
    }
    set_python_events(false);
    entered = false;
  }
  return removed;
}

namespace {

int (*start_wanted)() = nullptr;

int start_with_python() {
  const bool hooked = set_python_events(true) == 0;
  const int started = start_wanted();
  if (started < 0) {
    set_python_events(false);
    return started;
  }
  if (hooked) {
    record_live_python();
  }
  return hooked ? 1 : 0;
}

}  // namespace

int optrace_agent_start_on_main_thread(int (*start)(void), std::uint64_t milliseconds) {
  start_wanted = start;
  leave_this_thread_out();
  return call_at_safe_point(start_with_python, milliseconds);
}

int optrace_agent_return_limit(std::uint32_t hits) {
  const OnlyCall call;
  if (!call || running_round() != 0) {
    return -EBUSY;
  }
  limit_return_probes(hits);
  return 0;
}

int optrace_agent_callers(int on) {
  const OnlyCall call;
  if (!call || running_round() != 0) {
    return -EBUSY;
  }
  record_callers(on != 0);
  return 0;
}

int optrace_agent_every_python_call(int on) {
  const OnlyCall call;
  if (!call || running_round() != 0) {
    return -EBUSY;
  }
  record_every_python_call(on != 0);
  return 0;
}

int optrace_agent_read_counters(optrace_agent_counters* counters) {
  const OnlyCall call;
  if (!call) {
    return -EBUSY;
  }
  *counters = {};
  for (std::uint32_t i = 0; i < plan_count; ++i) {
    const PlacedPlan& plan = plans[i];
    for (std::uint32_t j = 0; j < plan.view.header->probe_count; ++j) {
      const ProbeState state = plan.slab.slots[j].state;
      counters->left_behind += state == ProbeState::left_behind ? 1 : 0;
      if (plan.placed) {
        counters->jumps += state == ProbeState::jump ? 1 : 0;
        counters->traps += state == ProbeState::trap ? 1 : 0;
        counters->bytes_differ += state == ProbeState::bytes_differ ? 1 : 0;
        counters->no_room += state == ProbeState::no_room ? 1 : 0;
        counters->outside_text += state == ProbeState::outside_text ? 1 : 0;
        counters->overlapping += state == ProbeState::overlapping ? 1 : 0;
      }
    }
  }
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

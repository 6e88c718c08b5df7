// Built with -mgeneral-regs-only, like event_buffer.cpp.

#include "target/agent/recording/python_calls.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include "target/agent/process/system_calls.h"
#include "target/agent/recording/event_buffer.h"
#include "target/agent/recording/region.h"
#include "target/interface/recording_format.h"

namespace optrace::agent {
namespace {

constexpr long kNoSuchThread = -3;  // -ESRCH

// All stacks. They are kept for later threads, because no code runs when a thread ends.
PythonStack* stacks = nullptr;

bool every_call = false;  // See record_every_python_call().

std::uint32_t own_thread() {
  return static_cast<std::uint32_t>(system_call(SYS_gettid, 0));
}

// Returns the stack of a thread that has ended.
PythonStack* take_abandoned(std::uint32_t thread) {
  const auto process = static_cast<std::uint64_t>(system_call(SYS_getpid, 0));
  for (PythonStack* stack = __atomic_load_n(&stacks, __ATOMIC_ACQUIRE); stack != nullptr;
       stack = stack->next) {
    std::uint32_t owner = __atomic_load_n(&stack->owner, __ATOMIC_RELAXED);
    const bool abandoned =
        owner == thread || system_call(SYS_tgkill, process, owner) == kNoSuchThread;
    if (abandoned && __atomic_compare_exchange_n(&stack->owner, &owner, thread, false,
                                                 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
      return stack;
    }
  }
  return nullptr;
}

PythonStack* make_stack(std::uint32_t thread) {
  const long memory =
      system_call(SYS_mmap, 0, sizeof(PythonStack), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, static_cast<std::uint64_t>(-1));
  if (memory <= 0) return nullptr;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  auto* const stack = reinterpret_cast<PythonStack*>(memory);
  stack->owner = thread;
  stack->next = __atomic_load_n(&stacks, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&stacks, &stack->next, stack, false, __ATOMIC_RELEASE,
                                      __ATOMIC_RELAXED)) {
  }
  return stack;
}

void begin_round_of(PythonStack& stack, std::uint32_t round) {
  stack.size = 0;
  stack.recorded = 0;
  stack.running_loop = 0;
  stack.ran = 0;
  stack.round = round;
  // A forked child's thread has another id.
  __atomic_store_n(&stack.owner, own_thread(), __ATOMIC_RELAXED);
}

void set_ran(PythonStack& stack, const PythonCall& call) {
  const std::uint64_t at = thread_buffer().cursor;
  if (stack.ran_before != at || stack.ran < call.hook) {
    stack.ran = call.hook;
    stack.ran_before = at;
  }
  stack.ran_ticks = call.ticks;
}

}  // namespace

PythonStack* python_stack(std::uint32_t round) {
  ThreadBuffer& buffer = thread_buffer();
  if (buffer.python != nullptr && buffer.python->round == round) return buffer.python;
  if (buffer.python == nullptr) {
    const std::uint32_t thread = own_thread();
    PythonStack* const free = take_abandoned(thread);
    buffer.python = free != nullptr ? free : make_stack(thread);
  }
  if (buffer.python != nullptr) begin_round_of(*buffer.python, round);
  return buffer.python;
}

void begin_python_call(std::uint32_t round, const PythonCall& call, std::uint64_t slot,
                       std::uint64_t frame_pointer) {
  PythonStack* const stack = python_stack(round);
  if (thread_buffer().round == kUnrecorded) return;
  if (stack == nullptr || stack->size == PythonStack::kMaxCalls) {
    record_event(round, call.builtin ? recording::kBuiltinCall : recording::kPythonCall, call.line,
                 call.hook, call.function);
    return;
  }
  PythonCall& place = stack->calls[stack->size];
  place = call;
  place.loop = optrace_agent_loop_around(slot, frame_pointer);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  ++stack->size;
  if (every_call) optrace_agent_record_python(slot, frame_pointer, round);
}

bool end_python_call(std::uint32_t round, const void* object, std::uint64_t hook) {
  PythonStack* const stack = python_stack(round);
  if (thread_buffer().round == kUnrecorded) return true;
  std::uint32_t at = stack == nullptr ? 0 : stack->size;
  while (at > 0 && stack->calls[at - 1].object != object) --at;
  if (at == 0) {
    if (stack != nullptr) {
      stack->running_loop = 0;
      stack->ran = 0;
    }
    return false;
  }
  const PythonCall call = stack->calls[at - 1];
  const bool was_recorded = at <= stack->recorded;
  if (was_recorded) {
    stack->recorded = at - 1;
    stack->running_loop = at > 1 ? stack->calls[at - 2].loop : 0;
  }
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  stack->size = at - 1;
  if (was_recorded) {
    stack->ran = 0;
    put_event(round, call.builtin ? recording::kBuiltinReturn : recording::kPythonReturn, 0, hook,
              call.function, ticks());
  } else {
    set_ran(*stack, call);
  }
  return true;
}

void record_every_python_call(bool on) {
  every_call = on;
}

void discard_pending_python(std::uint32_t round) {
  PythonStack* const stack = python_stack(round);
  if (stack != nullptr) {
    stack->size = stack->recorded;
    stack->ran = 0;
  }
}

void add_live_python_call(std::uint32_t round, const PythonCall& call) {
  PythonStack* const stack = python_stack(round);
  if (stack != nullptr && stack->size < PythonStack::kMaxCalls && stack->size == stack->recorded) {
    stack->calls[stack->size++] = call;
    ++stack->recorded;
  }
}

__attribute__((noinline)) void record_pending_python(std::uint32_t round) {
  const PythonStack* const stack = thread_buffer().python;
  if (stack != nullptr && stack->round == round &&
      (stack->size != stack->recorded || stack->ran != 0)) {
    const auto* const frame = static_cast<const std::uint64_t*>(__builtin_frame_address(0));
    optrace_agent_record_python(address_of(frame + 1), frame[0], round);
  }
}

}  // namespace optrace::agent

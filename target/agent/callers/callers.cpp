// Built with -mgeneral-regs-only, because it runs in the same context as optrace_agent_refill
// (event_buffer.cpp). Takes no lock and allocates nothing.

#include "target/agent/callers/callers.h"

#include <sys/mman.h>

#include "target/agent/callers/frame_modules.h"
#include "target/agent/callers/frame_rules.h"
#include "target/agent/callers/stack_frames.h"
#include "target/agent/process/system_calls.h"
#include "target/agent/recording/event_buffer.h"
#include "target/agent/recording/python_calls.h"
#include "target/agent/recording/python_functions.h"

extern "C" {
/// Hash table of return addresses in functions with a probe; the hash uses their low 32 bits. The
/// record routine reads it.
__attribute__((visibility("hidden"))) std::uint64_t* optrace_agent_probed_returns = nullptr;
}

namespace optrace::agent {
namespace {

// Must match the assembly in event_buffer.cpp.
constexpr std::uint64_t kProbedReturns = 1 << 16;

std::uint64_t place_of_return(std::uint64_t address) {
  return (address ^ address >> 16) & (kProbedReturns - 1);
}

bool recorded = true;
bool any_noted = false;  // True if optrace_agent_probed_returns has entries.

// Maximum number of consecutive frames without a probe on a thread that runs no Python; a longer
// chain is cut off.
constexpr std::uint32_t kMaxCallers = 64;
// Maximum number of frames of libraries without probes between a call's recorder and PyTorch.
constexpr int kMaxOutside = 64;
// Maximum number of frames between the profile function and the loop that called it.
constexpr std::uint32_t kMaxHookFrames = LoopPath::kMaxFrames + 1;
// Maximum number of interpreter-internal frames between two frames of Python code.
constexpr int kMaxHops = 4;

// The callers without a probe, innermost first, up to the next function with a probe or up to the
// loop that is known to run.
struct Callers {
  CallerFrame* frames;
  std::uint32_t capacity;
  std::uint32_t count = 0;
  std::uint32_t loops = 0;       // Number of evaluation loops among them.
  bool in_running_loop = false;  // They are inside the loop that is known to run.
};

void find_callers(Frame frame, std::uint64_t running_loop, Callers& callers) {
  const std::uint64_t end = stack_end_above(frame.stack_pointer - 8);
  while (callers.count < callers.capacity) {
    const KnownFrame known = frame_at(frame.return_address);
    const FrameRule& rule = known.rule;
    if (known.kind == FrameKind::probed) {
      if (callers.count == 0) {
        __atomic_store_n(&any_noted, true, __ATOMIC_RELAXED);
        __atomic_store_n(&optrace_agent_probed_returns[place_of_return(frame.return_address)],
                         frame.return_address, __ATOMIC_RELAXED);
      }
      break;
    }
    CallerFrame& caller = callers.frames[callers.count];
    caller.is_loop = known.kind == FrameKind::loop;
    if (rule.base == FrameBase::outermost) {
      caller.inside = frame.return_address;
      caller.slot = frame.stack_pointer;
      caller.return_address = 0;
      ++callers.count;
      break;
    }
    const std::uint64_t frame_address = end == 0 ? 0 : address_of_frame(frame, rule, end);
    if (frame_address == 0) break;
    if (caller.is_loop && frame_address - 8 == running_loop) {
      callers.in_running_loop = true;
      break;
    }
    caller.inside = frame.return_address;
    caller.slot = frame_address - 8;
    leave_frame(frame, rule, frame_address, end);
    caller.return_address = frame.return_address;
    callers.loops += caller.is_loop ? 1 : 0;
    ++callers.count;
    if (frame.return_address == 0) break;
  }
}

void record_caller(std::uint32_t round, const CallerFrame& caller) {
  put_event(round, recording::kCaller | static_cast<std::uint32_t>(caller.inside >> 32),
            static_cast<std::uint32_t>(caller.inside), caller.slot, caller.return_address, ticks());
}

// Returns the innermost frame of Python if the calling thread runs Python code, which it does only
// while it has the GIL; else 0.
std::uint64_t innermost_python_frame() {
  const PythonFrames& frames = probed_frames();
  const ThreadBuffer& buffer = thread_buffer();
  if (!__atomic_load_n(&frames.usable, __ATOMIC_ACQUIRE) || buffer.current_python == nullptr)
    return 0;
  const std::uint64_t thread = *buffer.current_python;
  if (thread == 0 || thread != buffer.python_thread) return 0;
  if (frames.thread_id != 0) {
    std::uint64_t own = 0;  // NOLINT(misc-const-correctness): asm writes it.
    asm("movq %%fs:16, %0" : "=r"(own));
    if (read_word(thread + frames.thread_id) != own) return 0;
  }
  const std::uint64_t at = read_word(thread + frames.frame);
  return frames.through == 0 || at == 0 ? at : read_word(at + frames.through - 1);
}

std::uint64_t code_of(std::uint64_t frame) {
  constexpr std::uint64_t kTag = 7;
  return read_word(frame + probed_frames().code) & ~kTag;
}

// Records the current instruction of the nearest frame, from this one outwards, that runs a known
// function. The frame is owned by this thread until the function that it calls has returned. The
// thread has the GIL, so the known functions don't change.
void record_position(std::uint32_t round, std::uint64_t frame) {
  const PythonFrames& frames = probed_frames();
  std::uint32_t function = kNoFunction;
  for (int hops = 0; frame != 0 && hops < kMaxHops; ++hops) {
    function = known_function(code_of(frame), kIsCode);
    if (function != kNoFunction) break;
    frame = read_word(frame + frames.previous);
  }
  if (frame == 0 || function == kNoFunction || function == kMergedFunction) return;
  const std::uint64_t instruction = read_word(frame + frames.instruction);
  ThreadBuffer& buffer = thread_buffer();
  if (buffer.round == round && buffer.noted_frame == frame &&
      buffer.noted_instruction == instruction) {
    return;
  }
  const std::uint32_t offset =
      frames.first_instruction != 0
          ? static_cast<std::uint32_t>(instruction - code_of(frame) - frames.first_instruction)
          : static_cast<std::uint32_t>(instruction) * frames.unit;
  put_event(round, recording::kPythonPosition, offset, 0, function, ticks());
  if (buffer.round == round) {
    buffer.noted_frame = frame;
    buffer.noted_instruction = instruction;
  }
}

// Marks a thread's stack as being read, so that a signal handler that hits a probe leaves it alone.
class StackUse {
 public:
  explicit StackUse(PythonStack& stack) : stack_(stack) {
    stack_.in_use = true;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
  }
  ~StackUse() {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    stack_.in_use = false;
  }
  StackUse(const StackUse&) = delete;
  StackUse& operator=(const StackUse&) = delete;

 private:
  PythonStack& stack_;
};

// Records that Python has run, if it has since the thread's last event.
void record_ran(std::uint32_t round, PythonStack& stack) {
  if (stack.ran != 0 && stack.ran_before == thread_buffer().cursor)
    put_event(round, recording::kPythonRan, 0, stack.ran, 0, stack.ran_ticks);
  stack.ran = 0;
}

// Writes the events of one flush: callers without a probe, outermost first, and between them the
// pending Python calls, each inside the loop that runs it.
class PythonMerge {
 public:
  PythonMerge(std::uint32_t round, PythonStack& stack, const Callers& callers)
      : round_(round), stack_(stack), callers_(callers), left_(callers.count) {}

  void record() {
    const std::uint64_t innermost = innermost_python_frame();
    record_ran(round_, stack_);
    while (stack_.recorded < stack_.size) record_call(stack_.calls[stack_.recorded]);
    // A loop without a pending call runs a function that was live before the recording.
    std::uint32_t innermost_loop = 0;
    while (innermost_loop < left_ && !callers_.frames[innermost_loop].is_loop) ++innermost_loop;
    if (innermost_loop < left_) {
      record_callers_to(innermost_loop);
      stack_.running_loop = callers_.frames[innermost_loop].slot;
    }
    if (innermost != 0 && (callers_.in_running_loop || callers_.loops != 0))
      record_position(round_, innermost);
  }

  // Records the callers inside the innermost loop.
  void record_rest() { record_callers_to(0); }

 private:
  // Records the callers down to this one.
  void record_callers_to(std::uint32_t index) {
    while (left_ > index) record_caller(round_, callers_.frames[--left_]);
  }

  // The frame of a call that has not returned does not change, so it can be read without the GIL,
  // which ops that C++ code calls may have released.
  void record_call(const PythonCall& call) {
    if (call.frame != 0) {
      record_position(round_,
                      call.builtin ? call.frame : read_word(call.frame + probed_frames().previous));
    }
    if (call.loop != 0 && call.loop != stack_.running_loop) {
      for (std::uint32_t i = left_; i-- > 0;) {
        if (callers_.frames[i].is_loop && callers_.frames[i].slot == call.loop) {
          record_callers_to(i);
          break;
        }
      }
      stack_.running_loop = call.loop;
    }
    ++stack_.recorded;
    put_event(round_, call.builtin ? recording::kBuiltinCall : recording::kPythonCall, call.line,
              call.hook, call.function, call.ticks);
    if (!call.builtin)
      thread_buffer().noted_frame = 0;  // The new frame may have the address of the last noted one.
  }

  std::uint32_t round_;
  PythonStack& stack_;
  const Callers& callers_;
  std::uint32_t left_;  // Callers that have not been recorded.
};

// Records the callers of a call which returns into `frame`.
void put_callers(const Frame& frame, std::uint32_t round) {
  const ThreadBuffer& buffer = thread_buffer();
  if (!recorded || buffer.round == kUnrecorded) return;
  PythonStack* const stack = buffer.python;
  if (stack == nullptr || stack->round != round || stack->in_use) {
    CallerFrame frames[kMaxCallers];
    Callers callers{frames, kMaxCallers};
    find_callers(frame, 0, callers);
    while (callers.count > 0) record_caller(round, frames[--callers.count]);
    return;
  }
  const StackUse use(*stack);
  Callers callers{stack->callers, PythonStack::kMaxCallers};
  find_callers(frame, stack->running_loop, callers);
  PythonMerge merge(round, *stack, callers);
  merge.record();
  merge.record_rest();
}

// Returns the return slot of the loop whose call returns to the address in `slot`, or 0.
std::uint64_t slot_of_loop(const Frame& frame, const FrameRule& rule, std::uint64_t end) {
  const std::uint64_t frame_address = address_of_frame(frame, rule, end);
  return frame_address == 0 ? 0 : frame_address - 8;
}

std::uint64_t follow(const LoopPath& path, std::uint64_t slot) {
  for (std::uint32_t i = 0; i < path.count; ++i)
    if (read_word(slot + path.offsets[i]) != path.returns[i]) return 0;
  const std::uint64_t at = slot + path.offsets[path.count];
  const std::uint64_t inside = read_word(at);
  const KnownFrame known = frame_at(inside);
  if (known.kind != FrameKind::loop || known.rule.base != FrameBase::stack_pointer) return 0;
  return slot_of_loop({at + 8, 0, false, inside}, known.rule, stack_end_above(slot));
}

// Finds the loop by unwinding, and keeps the path if only stack pointers lead there.
std::uint64_t loop_around(std::uint64_t slot, std::uint64_t frame_pointer) {
  const PythonStack* const stack = thread_buffer().python;
  const std::uint64_t first = read_word(slot);
  LoopPath* const kept =
      stack == nullptr
          ? nullptr
          : &thread_buffer().python->paths[hash_of(first) & (PythonStack::kLoopPaths - 1)];
  if (kept != nullptr && kept->first == first) {
    if (const std::uint64_t loop = follow(*kept, slot); loop != 0) return loop;
  }
  LoopPath path{};
  bool keeps = true;
  const std::uint64_t end = stack_end_above(slot);
  Frame frame = frame_of_caller(slot, frame_pointer);
  std::uint64_t at = slot;
  for (std::uint32_t i = 0; i < kMaxHookFrames && end != 0; ++i) {
    const KnownFrame known = frame_at(frame.return_address);
    path.offsets[i] = static_cast<std::uint32_t>(at - slot);
    if (known.kind == FrameKind::loop) {
      path.first = first;
      path.count = i;
      if (keeps && kept != nullptr) *kept = path;
      return slot_of_loop(frame, known.rule, end);
    }
    keeps = keeps && known.rule.base == FrameBase::stack_pointer;
    const std::uint64_t frame_address = address_of_frame(frame, known.rule, end);
    if (frame_address == 0 || i == LoopPath::kMaxFrames) return 0;
    path.returns[i] = frame.return_address;
    leave_frame(frame, known.rule, frame_address, end);
    at = frame_address - 8;
  }
  return 0;
}

}  // namespace

bool make_caller_tables() {
  if (optrace_agent_probed_returns != nullptr) return true;
  prepare_module_lookup();
  void* const memory = mmap(nullptr, kProbedReturns * sizeof(std::uint64_t), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || !make_frame_cache()) return false;
  optrace_agent_probed_returns = static_cast<std::uint64_t*>(memory);
  return true;
}

void record_callers(bool on) {
  recorded = on;
}

std::uint64_t put_callers_of_library(std::uint64_t frame_address, std::uint32_t round) {
  const std::uint64_t end = stack_end_above(frame_address);
  Frame frame = frame_of_caller(frame_address + 8, read_word(frame_address));
  for (int i = 0; i < kMaxOutside && end != 0; ++i) {
    const KnownFrame known = frame_at(frame.return_address);
    const std::uint64_t address = address_of_frame(frame, known.rule, end);
    if (address == 0) return 0;
    if (known.kind != FrameKind::outside) {
      put_callers(frame, round);
      const std::uint64_t slot = address - 8;
      return slot - 1;
    }
    leave_frame(frame, known.rule, address, end);
  }
  return 0;
}

std::uint64_t ended_up_to(std::uint64_t stack_pointer) {
  constexpr std::uint64_t kMaxEvents = 256;
  const ThreadBuffer& buffer = thread_buffer();
  const std::uint64_t stack_end = stack_end_above(stack_pointer);
  if (buffer.chunk == nullptr || stack_end == 0) return stack_pointer;
  const auto first = reinterpret_cast<std::uint64_t>(buffer.chunk + 1);
  std::uint64_t ended = stack_pointer;
  std::uint64_t at = buffer.cursor;
  for (std::uint64_t i = 0; i < kMaxEvents && at >= first + sizeof(recording::Event); ++i) {
    at -= sizeof(recording::Event);
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    const auto& event = *reinterpret_cast<const recording::Event*>(at);
    if (event.id >= recording::kFirstPythonEvent && !recording::is_caller(event.id)) continue;
    const std::uint64_t slot = event.stack_pointer;
    if (slot <= ended || slot >= stack_end || slot % sizeof(std::uint64_t) != 0 ||
        !is_readable(slot)) {  // It may be in the stack of a coroutine that is gone.
      continue;
    }
    if (read_word(slot) == event.return_address) break;
    ended = slot;
  }
  return ended;
}

void clear_callers() {
  if (!__atomic_exchange_n(&any_noted, false, __ATOMIC_RELAXED)) return;
  for (std::uint64_t i = 0; i < kProbedReturns; ++i)
    if (optrace_agent_probed_returns[i] != 0)
      __atomic_store_n(&optrace_agent_probed_returns[i], 0, __ATOMIC_RELAXED);
}

}  // namespace optrace::agent

void optrace_agent_put_callers(std::uint64_t slot, std::uint64_t frame_pointer,
                               std::uint32_t round) {
  using namespace optrace::agent;
  put_callers(frame_of_caller(slot, frame_pointer), round);
}

void optrace_agent_record_python(std::uint64_t slot, std::uint64_t frame_pointer,
                                 std::uint32_t round) {
  using namespace optrace::agent;
  PythonStack* const stack = thread_buffer().python;
  if (thread_buffer().round == kUnrecorded || stack == nullptr || stack->round != round ||
      stack->in_use) {
    return;
  }
  const StackUse use(*stack);
  if (stack->size == stack->recorded) {
    record_ran(round, *stack);
    return;
  }
  Callers callers{stack->callers, recorded ? PythonStack::kMaxCallers : 0};
  find_callers(frame_of_caller(slot, frame_pointer), stack->running_loop, callers);
  PythonMerge(round, *stack, callers).record();
}

std::uint64_t optrace_agent_loop_around(std::uint64_t slot, std::uint64_t frame_pointer) {
  using namespace optrace::agent;
  return loop_around(slot, frame_pointer);
}

// Built with -mgeneral-regs-only: optrace_agent_refill runs in the middle of somebody's function
// and only the general registers are saved for it. It makes its own system calls for the same
// reason, and because a function of libc may itself be probed.

#include "tracer/in_process/agent/recording/event_buffer.h"

#include <cstddef>

#include <sys/mman.h>
#include <sys/syscall.h>

#include "tracer/in_process/agent/process/system_calls.h"
#include "tracer/in_process/agent/recording/python_functions.h"

using optrace::agent::PythonFrames;
using optrace::agent::Switch;
using optrace::agent::ThreadBuffer;
using optrace::recording::ChunkHeader;
using optrace::recording::ChunkState;
using optrace::recording::Event;
using optrace::recording::kChunkSize;
using optrace::recording::RegionHeader;

extern "C" {

// Hidden, so that the assembly below reaches them without a table.
__attribute__((visibility("hidden"),
               tls_model("initial-exec"))) __thread ThreadBuffer optrace_agent_thread_buffer;
__attribute__((visibility("hidden"))) Switch* optrace_agent_switch = nullptr;
__attribute__((visibility("hidden"))) PythonFrames optrace_agent_frames = {};
__attribute__((visibility("hidden"), used)) Event* optrace_agent_refill(std::uint32_t round);
__attribute__((visibility("hidden"), used)) void optrace_agent_note_position(
    std::uint32_t round, std::uint64_t frame, std::uint64_t instruction);
}

// The record routine. A slot (probe_slots.cpp) has stepped over the red zone and pushed the probe's
// id, then called; so at the first instruction:
//
//   rsp + 0    return address into the slot
//   rsp + 8    the probe's id, sign-extended
//   rsp + 16   128 bytes of red zone
//   rsp + 144  what was at rsp when the function was entered: its return address
//
// Every register and the flags come back as they were: callers may rely on registers that a callee
// is known not to touch (-fipa-ra), and some functions branch to their own entry. Nothing before
// `lahf` changes flags. The slot is taken with a compare-and-exchange (without a lock prefix: only
// a signal handler on the same thread can interfere), so a handler that hits probes between any two
// instructions loses nothing. `line` holds the recording's number meanwhile: by it, and by the
// time, which is written last, read_slot() tells the events from what else is in a chunk. A return
// address that is not among those in functions with a probe goes to callers.cpp first.
static_assert(offsetof(ThreadBuffer, cursor) == 0 && offsetof(ThreadBuffer, round) == 8);
static_assert(offsetof(Event, id) == 0 && offsetof(Event, line) == 4 &&
              offsetof(Event, stack_pointer) == 8 && offsetof(Event, return_address) == 16 &&
              offsetof(Event, ticks) == 24);
//
// What the interpreter calls has the position of its innermost frame noted first. The way there
// is taken by nobody else: one comparison of the return address decides. It reads the frame only
// where the thread's state is the one that runs, hence has the GIL, and is this thread's.
static_assert(optrace::recording::kArguments == 0xF0000008);
static_assert(offsetof(ThreadBuffer, current_python) == 32 &&
              offsetof(ThreadBuffer, python_thread) == 40 &&
              offsetof(ThreadBuffer, noted_frame) == 48 &&
              offsetof(ThreadBuffer, noted_instruction) == 56);
static_assert(offsetof(PythonFrames, text_start) == 0 && offsetof(PythonFrames, text_size) == 8 &&
              offsetof(PythonFrames, thread_id) == 16 && offsetof(PythonFrames, frame) == 24 &&
              offsetof(PythonFrames, through) == 32 && offsetof(PythonFrames, instruction) == 40);
// With kArguments behind it, for the probes whose plan asks for that.
asm(R"(
  # Calls a function with what a probed function may need saved; rcx stays, rax is the result.
  .macro optrace_call function
  pushq %rcx
  pushq %rsi
  pushq %r8
  pushq %r9
  pushq %r10
  pushq %r11
  pushq %rbp
  movq %rsp, %rbp
  andq $-16, %rsp
  call \function
  movq %rbp, %rsp
  popq %rbp
  popq %r11
  popq %r10
  popq %r9
  popq %r8
  popq %rsi
  popq %rcx
  .endm

  # Notes where Python is, if the interpreter calls; the recording's number is in ecx.
  .macro optrace_python_position
  movq 184(%rsp), %rax
  subq optrace_agent_frames(%rip), %rax
  cmpq optrace_agent_frames+8(%rip), %rax
  jb .Lpython\@
.Lnoted\@:
  .subsection 1
.Lpython\@:
  movq optrace_agent_thread_buffer@gottpoff(%rip), %rdi
  movq %fs:32(%rdi), %rax
  testq %rax, %rax
  jz .Lnoted\@
  movq (%rax), %rax
  cmpq %fs:40(%rdi), %rax
  jne .Lnoted\@
  movq optrace_agent_frames+16(%rip), %rdx
  testq %rdx, %rdx
  jz .Lown_thread\@
  movq (%rax,%rdx), %rdx
  cmpq %fs:16, %rdx
  jne .Lnoted\@
.Lown_thread\@:
  movq optrace_agent_frames+24(%rip), %rdx
  movq (%rax,%rdx), %rax
  movq optrace_agent_frames+32(%rip), %rdx
  testq %rdx, %rdx
  jz .Lframe\@
  movq -1(%rax,%rdx), %rax
.Lframe\@:
  testq %rax, %rax
  jz .Lnoted\@
  movq optrace_agent_frames+40(%rip), %rdx
  movq (%rax,%rdx), %rdx
  cmpq %fs:56(%rdi), %rdx
  jne .Lmoved\@
  cmpq %fs:48(%rdi), %rax
  jne .Lmoved\@
  cmpl %ecx, %fs:8(%rdi)
  je .Lnoted\@
.Lmoved\@:
  movl %ecx, %edi
  pushq %rsi
  movq %rax, %rsi
  optrace_call optrace_agent_note_position
  popq %rsi
  jmp .Lnoted\@
  .subsection 0
  .endm

  # Takes the next slot of the thread's chunk into rax; the recording's number is in ecx.
  .macro optrace_take_slot when_lost
  movq optrace_agent_thread_buffer@gottpoff(%rip), %rdi
.Ltake_slot\@:
  movq %fs:(%rdi), %rax
  cmpl %ecx, %fs:8(%rdi)
  jne .Lrefill\@
  testw %ax, %ax
  jz .Lrefill\@
  leaq 32(%rax), %rdx
  cmpxchgq %rdx, %fs:(%rdi)
  jne .Ltake_slot\@
.Lslot_taken\@:
  .subsection 1
.Lrefill\@:
  movl %ecx, %edi
  optrace_call optrace_agent_refill
  testq %rax, %rax
  jnz .Lslot_taken\@
  jmp \when_lost
  .subsection 0
  .endm

  .macro optrace_record name, with_arguments
  .pushsection .text.optrace_agent_record, "ax", @progbits
.Lnot_recording_\name:
  popq %rcx
  ret
  .p2align 6
  .globl \name
  .hidden \name
  .type \name, @function
\name:
  pushq %rcx
  movq optrace_agent_switch(%rip), %rcx
  movl (%rcx), %ecx
  jrcxz .Lnot_recording_\name
  pushq %rax
  lahf
  seto %al
  pushq %rax
  pushq %rdx
  pushq %rdi
  optrace_python_position
  movq 184(%rsp), %rax
  movq %rax, %rdx
  shrq $16, %rdx
  xorl %eax, %edx
  movzwl %dx, %edx
  movq optrace_agent_probed_returns(%rip), %rdi
  cmpq %rax, (%rdi, %rdx, 8)
  jne .Lnote_callers_\name
.Lcallers_noted_\name:
  optrace_take_slot .Ldone_\name
  movq %rax, %rdi
  movl 48(%rsp), %eax
  movl %eax, (%rdi)
  movl %ecx, 4(%rdi)
  leaq 184(%rsp), %rdx
  movq %rdx, 8(%rdi)
  movq (%rdx), %rax
  movq %rax, 16(%rdi)
  rdtsc
  movl %eax, 24(%rdi)
  movl %edx, 28(%rdi)
  .if \with_arguments
  optrace_take_slot .Ldone_\name
  movq %rax, %rdi
  movl $0xF0000008, (%rdi)
  leaq 184(%rsp), %rdx
  movl %edx, 4(%rdi)
  movq (%rsp), %rax
  movq %rax, 8(%rdi)
  movq %rsi, 16(%rdi)
  rdtsc
  movl %eax, 24(%rdi)
  movl %edx, 28(%rdi)
  .endif
.Ldone_\name:
  popq %rdi
  popq %rdx
  popq %rax
  addb $127, %al
  sahf
  popq %rax
  popq %rcx
  ret
.Lnote_callers_\name:
  leaq 184(%rsp), %rdi
  pushq %rsi
  movq %rbp, %rsi
  movl %ecx, %edx
  optrace_call optrace_agent_note_callers
  popq %rsi
  jmp .Lcallers_noted_\name
  .size \name, . - \name
  .popsection
  .endm

  optrace_record optrace_agent_record, 0
  optrace_record optrace_agent_record_arguments, 1
)");

namespace optrace::agent {

namespace {

constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14; others answer EINVAL.
constexpr long kInvalid = -22;      // -EINVAL
constexpr long kNoSuchThread = -3;  // -ESRCH
constexpr int kMonotonic = 1;       // CLOCK_MONOTONIC
constexpr int kFutexWait = 0;       // Between processes, hence not FUTEX_PRIVATE_FLAG.
constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kMaxWait = 2 * kSecond;
constexpr std::uint64_t kHeartbeatWait = kSecond;  // A reader that is quiet for longer is dead.
constexpr std::uint64_t kNap = kSecond / 20;

enum class GaveUp : std::uint32_t {
  no,
  reader_is_dead,  // As far as its heartbeat shows.
  reader_is_late,  // It lives, but no chunk came back.
};

std::uint32_t last_round = 0;

struct Timespec {
  std::int64_t seconds;
  std::int64_t nanoseconds;
};

std::uint64_t now() {
  Timespec time{};
  system_call(SYS_clock_gettime, kMonotonic, address_of(&time));
  return static_cast<std::uint64_t>(time.seconds) * kSecond +
         static_cast<std::uint64_t>(time.nanoseconds);
}

std::uint64_t word_at(std::uint64_t address) {
  return *reinterpret_cast<const std::uint64_t*>(address);  // NOLINT(performance-no-int-to-ptr)
}

template <typename T>
T load(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

constexpr std::uint32_t number_of(ChunkState state) {
  return static_cast<std::uint32_t>(state);
}

bool has_room(const ThreadBuffer& buffer, std::uint32_t round) {
  return buffer.round == round && buffer.cursor % kChunkSize != 0;
}

// In a region of the agent's own the count goes to the thread's last chunk. In a shared one that
// may be the reader's already: what counts for all threads until the thread gets another one.
void count_lost(Region& region, ThreadBuffer& buffer) {
  __atomic_fetch_add(&region.lost, 1, __ATOMIC_RELAXED);
  if (!region.shared && buffer.chunk != nullptr) {
    ++buffer.chunk->lost;
    return;
  }
  __atomic_fetch_add(&region.header->lost, 1, __ATOMIC_RELAXED);
  ++buffer.lost;
}

// What the record routine does: the next slot of the thread's chunk, or null when it has none.
Event* take_from_chunk(ThreadBuffer& buffer, std::uint32_t round) {
  std::uint64_t at = __atomic_load_n(&buffer.cursor, __ATOMIC_RELAXED);
  do {
    if (buffer.round != round || at % kChunkSize == 0) {
      return nullptr;
    }
  } while (!__atomic_compare_exchange_n(&buffer.cursor, &at, at + sizeof(Event), true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return reinterpret_cast<Event*>(at);  // NOLINT(performance-no-int-to-ptr)
}

// State and thread change in one: who finds a chunk owned knows by whom.
struct alignas(8) Owner {
  std::uint32_t state;
  std::uint32_t thread;
};
static_assert(offsetof(ChunkHeader, state) == 0 && offsetof(ChunkHeader, thread) == 4);

Owner owner_of(const ChunkHeader* header) {
  return __builtin_bit_cast(
      Owner, __atomic_load_n(reinterpret_cast<const std::uint64_t*>(header), __ATOMIC_ACQUIRE));
}

bool change_owner(ChunkHeader* header, Owner from, Owner to) {
  auto expected = __builtin_bit_cast(std::uint64_t, from);
  return __atomic_compare_exchange_n(reinterpret_cast<std::uint64_t*>(header), &expected,
                                     __builtin_bit_cast(std::uint64_t, to), false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED);
}

// From owned by this thread, if it is that still.
void let_go(ChunkHeader* header, std::uint32_t thread, ChunkState state) {
  change_owner(header, {number_of(ChunkState::owned), thread}, {number_of(state), thread});
}

// A full chunk, or one that is left from an earlier recording, is the reader's from now on. Only
// its own thread knows that nothing is being written to it.
void seal_chunk(const Region& region, ThreadBuffer& buffer, std::uint32_t thread) {
  const std::uint64_t at = address_of(buffer.chunk);
  if (region.shared && at >= region.chunks && at < region.chunks + region.capacity * kChunkSize) {
    let_go(buffer.chunk, thread, ChunkState::sealed);
    buffer.chunk = nullptr;
  }
}

// At no point between its lines does a handler find the old position with the new number.
void adopt_round(ThreadBuffer& buffer, std::uint32_t round) {
  if (buffer.round == round) {
    return;
  }
  buffer.cursor = 0;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  buffer.chunk = nullptr;
  buffer.first = 0;
  buffer.chunks = 0;
  buffer.lost = 0;
  buffer.noted_frame = 0;
  buffer.noted_instruction = 0;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  buffer.round = round;
}

// A chunk that is the caller's from now on, or null when none is free.
ChunkHeader* take_chunk(Region& region, std::uint32_t thread, std::uint64_t& order) {
  if (!region.shared) {
    order = __atomic_fetch_add(&region.taken, 1, __ATOMIC_ACQ_REL);
    if (order >= region.capacity) {
      return nullptr;
    }
    ChunkHeader* const header = region.chunk(static_cast<std::uint32_t>(order));
    header->state = number_of(ChunkState::owned);
    header->thread = thread;
    return header;
  }
  const std::uint64_t from = __atomic_load_n(&region.taken, __ATOMIC_RELAXED);
  for (std::uint32_t i = 0; i < region.capacity; ++i) {
    ChunkHeader* const header =
        region.chunk(static_cast<std::uint32_t>((from + i) % region.capacity));
    const Owner owner = owner_of(header);
    if (owner.state == number_of(ChunkState::free) &&
        change_owner(header, owner, {number_of(ChunkState::owned), thread})) {
      order = __atomic_fetch_add(&region.taken, 1, __ATOMIC_ACQ_REL);
      return header;
    }
  }
  return nullptr;
}

// The first event then finds its memory there. False when the system has none: to write would end
// the process.
bool populate(const ChunkHeader* header) {
  const long result = system_call(SYS_madvise, address_of(header), kChunkSize, kPopulateWrite);
  return result == 0 || result == kInvalid;
}

// Seals the thread's full chunk, takes another and its first slot; null when none is free. Without
// signals.
Event* change_chunk(Region& region, ThreadBuffer& buffer, std::uint32_t round) {
  const auto thread = static_cast<std::uint32_t>(system_call(SYS_gettid, 0));
  seal_chunk(region, buffer, thread);
  adopt_round(buffer, round);
  std::uint64_t order = 0;
  ChunkHeader* const header = take_chunk(region, thread, order);
  if (header == nullptr) {
    return nullptr;
  }
  if (running_round() != round || !populate(header)) {
    let_go(header, thread, ChunkState::free);
    return nullptr;
  }
  buffer.first = buffer.chunks == 0 ? static_cast<std::uint32_t>(order) : buffer.first;
  ++buffer.chunks;
  header->order = order;
  header->lost = buffer.lost;
  header->first = buffer.first;
  __atomic_store_n(&header->round, round, __ATOMIC_RELEASE);
  if (buffer.lost != 0) {
    __atomic_fetch_sub(&region.header->lost, buffer.lost, __ATOMIC_RELAXED);
    buffer.lost = 0;
  }
  buffer.chunk = header;
  Event* const first = events_of(header);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  buffer.cursor = reinterpret_cast<std::uint64_t>(first + 1);
  return first;
}

// Nobody else seals the chunk of a thread that has ended.
void seal_chunks_of_ended_threads(const Region& region) {
  const auto process = static_cast<std::uint32_t>(region.process);
  for (std::uint32_t i = 0; i < region.capacity; ++i) {
    const Owner owner = owner_of(region.chunk(i));
    if (owner.state == number_of(ChunkState::owned) &&
        system_call(SYS_tgkill, process, owner.thread) == kNoSuchThread) {
      let_go(region.chunk(i), owner.thread, ChunkState::sealed);
    }
  }
}

// Whether somebody has waited in vain, and nothing has changed since.
bool is_hopeless(const Region& region) {
  if (!region.shared) {
    return load(region.taken) >= region.capacity;
  }
  const auto gave_up = static_cast<GaveUp>(load(region.gave_up));
  if (gave_up == GaveUp::no || load(region.header->freed) != load(region.gave_up_freed)) {
    return false;
  }
  return gave_up == GaveUp::reader_is_late ||
         load(region.header->heartbeat) == load(region.gave_up_heartbeat);
}

void give_up(Region& region, GaveUp reason, std::uint32_t freed, std::uint32_t heartbeat) {
  __atomic_store_n(&region.gave_up_freed, freed, __ATOMIC_RELAXED);
  __atomic_store_n(&region.gave_up_heartbeat, heartbeat, __ATOMIC_RELAXED);
  __atomic_store_n(&region.gave_up, static_cast<std::uint32_t>(reason), __ATOMIC_RELEASE);
}

// Tries until the reader has given a chunk back. Signal handlers run meanwhile, and may hit probes.
Event* wait_for_chunk(Region& region, ThreadBuffer& buffer, std::uint32_t round) {
  RegionHeader& header = *region.header;
  const std::uint64_t begin = now();
  std::uint64_t beat_at = begin;
  std::uint32_t heartbeat = load(header.heartbeat);
  while (running_round() == round) {
    const std::uint32_t freed = load(header.freed);
    seal_chunks_of_ended_threads(region);
    {
      const SignalsBlocked guard;
      Event* slot = take_from_chunk(buffer, round);
      slot = slot == nullptr ? change_chunk(region, buffer, round) : slot;
      if (slot != nullptr) {
        return slot;
      }
    }
    const std::uint64_t time = now();
    const std::uint32_t beat = load(header.heartbeat);
    if (beat != heartbeat) {
      heartbeat = beat;
      beat_at = time;
    }
    if (time - beat_at >= kHeartbeatWait || time - begin >= kMaxWait) {
      give_up(region, time - begin >= kMaxWait ? GaveUp::reader_is_late : GaveUp::reader_is_dead,
              freed, beat);
      return nullptr;
    }
    const Timespec nap{0, kNap};
    __atomic_fetch_add(&header.waiting, 1, __ATOMIC_RELAXED);
    system_call(SYS_futex, address_of(&header.freed), kFutexWait, freed, address_of(&nap));
    __atomic_fetch_sub(&header.waiting, 1, __ATOMIC_RELAXED);
  }
  return nullptr;
}

}  // namespace

bool make_switch() {
  if (optrace_agent_switch != nullptr) {
    return true;
  }
  void* const page =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) {
    return false;
  }
  // Any way of forking then stops the child's recording, also one that runs no atfork handler.
  madvise(page, 4096, MADV_WIPEONFORK);
  optrace_agent_switch = static_cast<Switch*>(page);
  return true;
}

std::uint32_t next_round() {
  ++last_round;
  last_round += last_round == 0 || last_round == kUnrecorded ? 2 : 0;
  return last_round;
}

void begin_round() {
  Region& region = *current_region();
  give_up(region, GaveUp::no, 0, 0);
  populate(region.chunk(0));
  __atomic_store_n(&optrace_agent_switch->round, last_round, __ATOMIC_RELEASE);
}

std::uint32_t running_round() {
  return optrace_agent_switch == nullptr
             ? 0
             : __atomic_load_n(&optrace_agent_switch->round, __ATOMIC_ACQUIRE);
}

std::uint32_t last_started_round() {
  return last_round;
}

void end_round() {
  if (optrace_agent_switch != nullptr) {
    __atomic_store_n(&optrace_agent_switch->round, 0, __ATOMIC_RELEASE);
  }
}

bool read_slot(const Event& slot, std::uint64_t start_ticks, std::uint64_t stop_ticks,
               Event& event) {
  // The time first: with one in the recording, the rest is complete, and nobody writes there now.
  const std::uint64_t ticks = load(slot.ticks);
  if (ticks < start_ticks || ticks > stop_ticks) {
    return false;
  }
  event = slot;
  const bool of_probe = event.id < recording::kFirstPythonEvent;
  if (of_probe && event.line != last_round) {
    return false;  // An earlier recording's, or a late comer's.
  }
  event.line = of_probe ? 0 : event.line;
  return true;
}

ThreadBuffer& thread_buffer() {
  return optrace_agent_thread_buffer;
}

PythonFrames& probed_frames() {
  return optrace_agent_frames;
}

std::uint32_t pause_thread() {
  const std::uint32_t before = optrace_agent_thread_buffer.round;
  optrace_agent_thread_buffer.round = kUnrecorded;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  return before;
}

void resume_thread(std::uint32_t paused) {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  optrace_agent_thread_buffer.round = paused;
}

Event* take_slot(std::uint32_t round) {
  if (round == 0 || running_round() != round) {
    return nullptr;
  }
  Event* const slot = take_from_chunk(optrace_agent_thread_buffer, round);
  return slot != nullptr ? slot : optrace_agent_refill(round);
}

void note_python_position(std::uint32_t round, std::uint64_t frame) {
  const std::uint64_t instruction = word_at(frame + optrace_agent_frames.instruction);
  const ThreadBuffer& buffer = optrace_agent_thread_buffer;
  if (buffer.round != round || buffer.noted_frame != frame ||
      buffer.noted_instruction != instruction) {
    optrace_agent_note_position(round, frame, instruction);
  }
}

void record_event(std::uint32_t round, std::uint32_t kind, std::uint32_t line,
                  std::uint64_t stack_pointer, std::uint64_t return_address) {
  Event* const slot = take_slot(round);
  if (slot != nullptr) {
    slot->id = kind;
    slot->line = line;
    slot->stack_pointer = stack_pointer;
    slot->return_address = return_address;
    // Last: what was taken but has no time is no event.
    __atomic_store_n(&slot->ticks, ticks(), __ATOMIC_RELEASE);
  }
}

}  // namespace optrace::agent

/// Gives the calling thread a fresh chunk and returns its first slot; null when the event is lost.
Event* optrace_agent_refill(std::uint32_t round) {
  using namespace optrace::agent;
  ThreadBuffer& buffer = optrace_agent_thread_buffer;
  if (buffer.round == kUnrecorded) {
    return nullptr;
  }
  Region& region = *current_region();
  Event* slot = nullptr;
  if (has_room(buffer, round) || !is_hopeless(region)) {
    const SignalsBlocked guard;
    slot = take_from_chunk(buffer, round);  // A handler may have been here before the block.
    slot = slot == nullptr && running_round() == round ? change_chunk(region, buffer, round) : slot;
  }
  if (slot == nullptr && region.shared && !is_hopeless(region)) {
    slot = wait_for_chunk(region, buffer, round);
  }
  if (slot == nullptr && running_round() == round) {
    const SignalsBlocked guard;
    if (buffer.round != round) {
      seal_chunk(region, buffer, static_cast<std::uint32_t>(system_call(SYS_gettid, 0)));
      adopt_round(buffer, round);
    }
    count_lost(region, buffer);
  }
  return slot;
}

// The frame stays, and is this thread's to read, while what it calls has not returned. The thread
// has the GIL, so the known functions stay as they are.
void optrace_agent_note_position(std::uint32_t round, std::uint64_t frame,
                                 std::uint64_t instruction) {
  using namespace optrace::agent;
  constexpr std::uint64_t kTag = 7;
  const PythonFrames& frames = optrace_agent_frames;
  if (optrace_agent_thread_buffer.round == kUnrecorded) {
    return;
  }
  const std::uint64_t code = word_at(frame + frames.code) & ~kTag;
  const std::uint32_t function = known_function(code, kIsCode);
  const bool has_positions = function != kNoFunction && function != kMergedFunction;
  Event* const slot = has_positions ? take_slot(round) : nullptr;
  if (slot == nullptr) {
    return;
  }
  slot->id = optrace::recording::kPythonPosition;
  slot->line = frames.first_instruction != 0
                   ? static_cast<std::uint32_t>(instruction - code - frames.first_instruction)
                   : static_cast<std::uint32_t>(instruction) * frames.unit;
  slot->stack_pointer = 0;
  slot->return_address = function;
  __atomic_store_n(&slot->ticks, ticks(), __ATOMIC_RELEASE);
  optrace_agent_thread_buffer.noted_frame = frame;
  optrace_agent_thread_buffer.noted_instruction = instruction;
}

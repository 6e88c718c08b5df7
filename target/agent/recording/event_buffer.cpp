// Built with -mgeneral-regs-only: optrace_agent_refill runs in the middle of an arbitrary function,
// and only the general registers are saved for it. It makes its own system calls for the same
// reason, and because libc functions may have probes.

#include "target/agent/recording/event_buffer.h"

#include <cstddef>

#include <sys/mman.h>
#include <sys/syscall.h>

#include "target/agent/process/system_calls.h"
#include "target/agent/recording/python_calls.h"

using optrace::agent::Switch;
using optrace::agent::ThreadBuffer;
using optrace::recording::ChunkHeader;
using optrace::recording::ChunkState;
using optrace::recording::Event;
using optrace::recording::kChunkSize;
using optrace::recording::RegionHeader;

extern "C" {

// Hidden, so that the assembly below can address them directly instead of through the GOT.
__attribute__((visibility("hidden"),
               tls_model("initial-exec"))) __thread ThreadBuffer optrace_agent_thread_buffer;
__attribute__((visibility("hidden"))) Switch* optrace_agent_switch = nullptr;
__attribute__((visibility("hidden"), used)) Event* optrace_agent_refill(std::uint32_t round);
__attribute__((visibility("hidden"))) std::uint32_t optrace_agent_count_return(std::uint64_t hit);
}

// The record routine. A slot (probe_slots.cpp) has skipped the red zone, pushed the probe's id and
// called the routine. At its first instruction, the stack contains:
//
//   rsp + 0    return address into the slot
//   rsp + 8    the probe's id, sign-extended
//   rsp + 16   128 bytes of red zone
//   rsp + 144  the word at rsp on entry to the function: its return address
//
// All registers and the flags are preserved: callers may rely on registers that a callee does not
// use (-fipa-ra), and some functions branch to their own entry. No instruction before `lahf`
// changes flags. The event slot is taken with a compare-and-exchange, so a signal handler that hits
// probes between any two instructions loses no event. It needs no lock prefix, because only a
// handler on the same thread can interfere. `line` contains the number of the
// recording. The time is written last; a slot without one is not an event yet. A return address
// that is not known to be in a function with a probe is passed to callers.cpp first.
static_assert(offsetof(ThreadBuffer, cursor) == 0 && offsetof(ThreadBuffer, round) == 8);
static_assert(offsetof(Event, id) == 0 && offsetof(Event, line) == 4 &&
              offsetof(Event, stack_pointer) == 8 && offsetof(Event, return_address) == 16 &&
              offsetof(Event, ticks) == 24);
static_assert(optrace::recording::kArguments == 0xF0000008 &&
              optrace::recording::kReturnedValue == 0xF000000E);
// What the routine records: 0 the entry; 1 the same, followed by kArguments; 2 the value in rax
// that a call has returned. In the last case, the function's return slot is the word below the one
// at rsp + 144, and return_probes.cpp decides whether the value is recorded.
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

  # Writes the time into the event at rdi, by one store: the reader takes an event whose time is not 0.
  .macro optrace_write_time
  rdtsc
  shlq $32, %rdx
  orq %rdx, %rax
  movq %rax, 24(%rdi)
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

  .macro optrace_record name, what
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
  .if \what == 2
  leaq 176(%rsp), %rdi
  shlq $32, %rdi
  movl 48(%rsp), %edx
  orq %rdx, %rdi
  optrace_call optrace_agent_count_return
  testl %eax, %eax
  jz .Ldone_\name
  optrace_take_slot .Ldone_\name
  movq %rax, %rdi
  movl $0xF000000E, (%rdi)
  movl 48(%rsp), %eax
  movl %eax, 4(%rdi)
  leaq 176(%rsp), %rdx
  movq %rdx, 8(%rdi)
  movq 24(%rsp), %rax
  movq %rax, 16(%rdi)
  optrace_write_time
  .else
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
  optrace_write_time
  .if \what == 1
  optrace_take_slot .Ldone_\name
  movq %rax, %rdi
  movl $0xF0000008, (%rdi)
  leaq 184(%rsp), %rdx
  movl %edx, 4(%rdi)
  movq (%rsp), %rax
  movq %rax, 8(%rdi)
  movq %rsi, 16(%rdi)
  optrace_write_time
  .endif
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
  .if \what != 2
.Lnote_callers_\name:
  leaq 184(%rsp), %rdi
  pushq %rsi
  movq %rbp, %rsi
  movl %ecx, %edx
  optrace_call optrace_agent_put_callers
  popq %rsi
  jmp .Lcallers_noted_\name
  .endif
  .size \name, . - \name
  .popsection
  .endm

  optrace_record optrace_agent_record, 0
  optrace_record optrace_agent_record_arguments, 1
  optrace_record optrace_agent_record_return, 2
)");

namespace optrace::agent {
namespace {

// MADV_POPULATE_WRITE, since Linux 5.14; older kernels return EINVAL.
constexpr int kPopulateWrite = 23;
constexpr long kInvalid = -22;      // -EINVAL
constexpr long kNoSuchThread = -3;  // -ESRCH
constexpr int kMonotonic = 1;       // CLOCK_MONOTONIC
// Not FUTEX_PRIVATE_FLAG, because the futex is shared between processes.
constexpr int kFutexWait = 0;
constexpr std::uint64_t kSecond = 1'000'000'000;
// A busy machine may leave the reader without a processor for seconds, and a user may stop it.
constexpr std::uint64_t kMaxWait = 30 * kSecond;
// A reader whose heartbeat does not change for longer is considered dead. After the shorter time, a
// thread also looks whether the reader's process has ended.
constexpr std::uint64_t kHeartbeatWait = 12 * kSecond;
constexpr std::uint64_t kHeartbeatDoubt = kSecond;
constexpr std::uint64_t kNap = kSecond / 20;

enum class GaveUp : std::uint32_t {
  no,
  reader_is_dead,  // The heartbeat has stopped.
  reader_is_late,  // The reader is alive but returned no chunk.
};

std::uint32_t last_round = 0;
PythonFrames frames = {};

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

// The thread's last chunk may already belong to the reader, so lost events are counted for all
// threads together until the thread gets another chunk.
void count_lost(Region& region, ThreadBuffer& buffer) {
  __atomic_fetch_add(&region.lost, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&region.header->lost, 1, __ATOMIC_RELAXED);
  ++buffer.lost;
}

// Does the same as the record routine: returns the next slot of the thread's chunk, or null if
// there is none.
Event* take_from_chunk(ThreadBuffer& buffer, std::uint32_t round) {
  std::uint64_t at = __atomic_load_n(&buffer.cursor, __ATOMIC_RELAXED);
  do {
    if (buffer.round != round || at % kChunkSize == 0) return nullptr;
  } while (!__atomic_compare_exchange_n(&buffer.cursor, &at, at + sizeof(Event), true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return reinterpret_cast<Event*>(at);  // NOLINT(performance-no-int-to-ptr)
}

// State and thread change together, so the owner of an owned chunk is always known.
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

// Changes the state of a chunk if this thread still owns it.
void release(ChunkHeader* header, std::uint32_t thread, ChunkState state) {
  change_owner(header, {number_of(ChunkState::owned), thread}, {number_of(state), thread});
}

// Passes a full chunk, or one left from an earlier recording, to the reader. Only the thread that
// owns it can determine that nothing is being written to it.
void seal_chunk(const Region& region, ThreadBuffer& buffer, std::uint32_t thread) {
  const std::uint64_t at = address_of(buffer.chunk);
  if (at >= region.chunks && at < region.chunks + region.capacity * kChunkSize) {
    release(buffer.chunk, thread, ChunkState::sealed);
    buffer.chunk = nullptr;
  }
}

// The order of the writes ensures that a signal handler never sees the old position with the new
// number.
void join_recording(ThreadBuffer& buffer, std::uint32_t round) {
  if (buffer.round == round) return;
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

// Takes ownership of a chunk. Returns null if none is free.
ChunkHeader* take_chunk(Region& region, std::uint32_t thread, std::uint64_t& order) {
  // The first free chunk: memory that was used not long ago is still in the processor's caches.
  for (std::uint32_t i = 0; i < region.capacity; ++i) {
    ChunkHeader* const header = region.chunk(i);
    const Owner owner = owner_of(header);
    if (owner.state == number_of(ChunkState::free) &&
        change_owner(header, owner, {number_of(ChunkState::owned), thread})) {
      order = __atomic_fetch_add(&region.taken, 1, __ATOMIC_ACQ_REL);
      return header;
    }
  }
  return nullptr;
}

// Allocates the chunk's memory in advance, once. Returns false if the system has none; writing to
// the chunk would then kill the process.
bool populate(Region& region, const ChunkHeader* header) {
  const std::uint64_t index = (address_of(header) - region.chunks) / kChunkSize;
  std::uint64_t populated = __atomic_load_n(&region.populated, __ATOMIC_ACQUIRE);
  if (index < populated) return true;
  const long result = system_call(SYS_madvise, address_of(header), kChunkSize, kPopulateWrite);
  if (result == 0 && index == populated) {
    __atomic_compare_exchange_n(&region.populated, &populated, index + 1, false, __ATOMIC_RELEASE,
                                __ATOMIC_RELAXED);
  }
  return result == 0 || result == kInvalid;
}

// Seals the thread's full chunk and takes the first slot of another one. Returns null if none is
// free. Signals must be blocked.
Event* change_chunk(Region& region, ThreadBuffer& buffer, std::uint32_t round) {
  const auto thread = static_cast<std::uint32_t>(system_call(SYS_gettid, 0));
  seal_chunk(region, buffer, thread);
  join_recording(buffer, round);
  std::uint64_t order = 0;
  ChunkHeader* const header = take_chunk(region, thread, order);
  if (header == nullptr) return nullptr;
  if (running_round() != round || !populate(region, header)) {
    release(header, thread, ChunkState::free);
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

// A thread that has ended can't seal its chunk.
void seal_chunks_of_ended_threads(const Region& region) {
  const auto process = static_cast<std::uint32_t>(region.process);
  for (std::uint32_t i = 0; i < region.capacity; ++i) {
    const Owner owner = owner_of(region.chunk(i));
    if (owner.state == number_of(ChunkState::owned) &&
        system_call(SYS_tgkill, process, owner.thread) == kNoSuchThread) {
      release(region.chunk(i), owner.thread, ChunkState::sealed);
    }
  }
}

// Returns true if a thread has waited without success and nothing has changed since.
bool reader_is_gone(const Region& region) {
  const auto gave_up = static_cast<GaveUp>(load(region.gave_up));
  if (gave_up == GaveUp::no || load(region.header->freed) != load(region.gave_up_freed))
    return false;
  return gave_up == GaveUp::reader_is_late ||
         load(region.header->heartbeat) == load(region.gave_up_heartbeat);
}

void set_gave_up(Region& region, GaveUp reason, std::uint32_t freed, std::uint32_t heartbeat) {
  __atomic_store_n(&region.gave_up_freed, freed, __ATOMIC_RELAXED);
  __atomic_store_n(&region.gave_up_heartbeat, heartbeat, __ATOMIC_RELAXED);
  __atomic_store_n(&region.gave_up, static_cast<std::uint32_t>(reason), __ATOMIC_RELEASE);
}

bool has_ended(const RegionHeader& header) {
  const std::uint32_t reader = load(header.reader);
  return reader != 0 && system_call(SYS_tgkill, reader, reader) == kNoSuchThread;
}

// Tries until the reader has returned a chunk. Signal handlers run meanwhile and may hit probes.
Event* await_chunk(Region& region, ThreadBuffer& buffer, std::uint32_t round, std::uint64_t begin) {
  RegionHeader& header = *region.header;
  std::uint64_t beat_at = begin;
  std::uint32_t heartbeat = load(header.heartbeat);
  while (running_round() == round) {
    const std::uint32_t freed = load(header.freed);
    seal_chunks_of_ended_threads(region);
    {
      const SignalsBlocked guard;
      Event* slot = take_from_chunk(buffer, round);
      slot = slot == nullptr ? change_chunk(region, buffer, round) : slot;
      if (slot != nullptr) return slot;
    }
    const std::uint64_t time = now();
    const std::uint32_t beat = load(header.heartbeat);
    if (beat != heartbeat) {
      heartbeat = beat;
      beat_at = time;
    }
    const std::uint64_t still = time - beat_at;
    const bool dead = still >= kHeartbeatWait || (still >= kHeartbeatDoubt && has_ended(header));
    if (dead || time - begin >= kMaxWait) {
      set_gave_up(region, dead ? GaveUp::reader_is_dead : GaveUp::reader_is_late, freed, beat);
      return nullptr;
    }
    const Timespec nap{0, kNap};
    __atomic_fetch_add(&header.waiting, 1, __ATOMIC_RELAXED);
    system_call(SYS_futex, address_of(&header.freed), kFutexWait, freed, address_of(&nap));
    __atomic_fetch_sub(&header.waiting, 1, __ATOMIC_RELAXED);
  }
  return nullptr;
}

Event* wait_for_chunk(Region& region, ThreadBuffer& buffer, std::uint32_t round) {
  const std::uint64_t begin = now();
  Event* const slot = await_chunk(region, buffer, round, begin);
  __atomic_fetch_add(&region.header->waited, now() - begin, __ATOMIC_RELAXED);
  return slot;
}

}  // namespace

bool make_switch() {
  if (optrace_agent_switch != nullptr) return true;
  void* const page =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  // This stops the child's recording after any kind of fork, including one that runs no atfork
  // handler.
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
  set_gave_up(region, GaveUp::no, 0, 0);
  populate(region, region.chunk(0));
  __atomic_store_n(&optrace_agent_switch->round, last_round, __ATOMIC_RELEASE);
}

std::uint32_t running_round() {
  return optrace_agent_switch == nullptr
             ? 0
             : __atomic_load_n(&optrace_agent_switch->round, __ATOMIC_ACQUIRE);
}

void end_round() {
  if (optrace_agent_switch != nullptr)
    __atomic_store_n(&optrace_agent_switch->round, 0, __ATOMIC_RELEASE);
}

ThreadBuffer& thread_buffer() {
  return optrace_agent_thread_buffer;
}

PythonFrames& probed_frames() {
  return frames;
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
  if (round == 0 || running_round() != round) return nullptr;
  Event* const slot = take_from_chunk(optrace_agent_thread_buffer, round);
  return slot != nullptr ? slot : optrace_agent_refill(round);
}

void record_event(std::uint32_t round, std::uint32_t kind, std::uint32_t line,
                  std::uint64_t stack_pointer, std::uint64_t return_address) {
  record_pending_python(round);
  put_event(round, kind, line, stack_pointer, return_address, ticks());
}

void put_event(std::uint32_t round, std::uint32_t kind, std::uint32_t line,
               std::uint64_t stack_pointer, std::uint64_t return_address, std::uint64_t ticks) {
  Event* const slot = take_slot(round);
  if (slot != nullptr) {
    slot->id = kind;
    slot->line = line;
    slot->stack_pointer = stack_pointer;
    slot->return_address = return_address;
    // Written last: a slot without a time is not an event.
    __atomic_store_n(&slot->ticks, ticks, __ATOMIC_RELEASE);
  }
}

}  // namespace optrace::agent

/// Gives the calling thread a new chunk and returns its first slot, or null if the event is lost.
Event* optrace_agent_refill(std::uint32_t round) {
  using namespace optrace::agent;
  ThreadBuffer& buffer = optrace_agent_thread_buffer;
  if (buffer.round == kUnrecorded) return nullptr;
  Region& region = *current_region();
  Event* slot = nullptr;
  if (has_room(buffer, round) || !reader_is_gone(region)) {
    const SignalsBlocked guard;
    // A signal handler may have taken a chunk before signals were blocked.
    slot = take_from_chunk(buffer, round);
    slot = slot == nullptr && running_round() == round ? change_chunk(region, buffer, round) : slot;
  }
  if (slot == nullptr && !reader_is_gone(region)) slot = wait_for_chunk(region, buffer, round);
  if (slot == nullptr && running_round() == round) {
    const SignalsBlocked guard;
    if (buffer.round != round) {
      seal_chunk(region, buffer, static_cast<std::uint32_t>(system_call(SYS_gettid, 0)));
      join_recording(buffer, round);
    }
    count_lost(region, buffer);
  }
  return slot;
}

// Built with -mgeneral-regs-only: optrace_agent_refill runs in the middle of somebody's function
// and only the general registers are saved for it. It makes its own system calls for the same
// reason, and because a function of libc may itself be probed.

#include "tracer/agent/event_buffer.h"

#include <cstddef>

#include <sys/mman.h>
#include <sys/syscall.h>

#include "tracer/agent/pages.h"

using optrace::agent::ChunkHeader;
using optrace::agent::kChunkSize;
using optrace::agent::Switch;
using optrace::agent::ThreadBuffer;
using optrace::recording::Event;

extern "C" {

// Hidden, so that the assembly below reaches them without a table.
__attribute__((visibility("hidden"),
               tls_model("initial-exec"))) __thread ThreadBuffer optrace_agent_thread_buffer;
__attribute__((visibility("hidden"))) Switch* optrace_agent_switch = nullptr;
__attribute__((visibility("hidden"), used)) Event* optrace_agent_refill(std::uint32_t round);
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
// time, which is written last, collect() tells the events from what else is in a chunk.
static_assert(offsetof(ThreadBuffer, cursor) == 0 && offsetof(ThreadBuffer, round) == 8);
static_assert(offsetof(Event, id) == 0 && offsetof(Event, line) == 4 &&
              offsetof(Event, stack_pointer) == 8 && offsetof(Event, return_address) == 16 &&
              offsetof(Event, ticks) == 24);
asm(R"(
  .pushsection .text.optrace_agent_record, "ax", @progbits
  .p2align 6
  .globl optrace_agent_record
  .hidden optrace_agent_record
  .type optrace_agent_record, @function
optrace_agent_record:
  pushq %rcx
  movq optrace_agent_switch(%rip), %rcx
  movl (%rcx), %ecx
  jrcxz .Lnot_recording
  pushq %rax
  lahf
  seto %al
  pushq %rax
  pushq %rdx
  pushq %rdi
  movq optrace_agent_thread_buffer@gottpoff(%rip), %rdi
.Ltake_slot:
  movq %fs:(%rdi), %rax
  cmpl %ecx, %fs:8(%rdi)
  jne .Lrefill
  testw %ax, %ax
  jz .Lrefill
  leaq 32(%rax), %rdx
  cmpxchgq %rdx, %fs:(%rdi)
  jne .Ltake_slot
.Lfill:
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
.Ldone:
  popq %rdi
  popq %rdx
  popq %rax
  addb $127, %al
  sahf
  popq %rax
.Lnot_recording:
  popq %rcx
  ret
.Lrefill:
  pushq %rcx
  pushq %rsi
  pushq %r8
  pushq %r9
  pushq %r10
  pushq %r11
  pushq %rbp
  movq %rsp, %rbp
  andq $-16, %rsp
  movl %ecx, %edi
  call optrace_agent_refill
  movq %rbp, %rsp
  popq %rbp
  popq %r11
  popq %r10
  popq %r9
  popq %r8
  popq %rsi
  popq %rcx
  testq %rax, %rax
  jz .Ldone
  jmp .Lfill
  .size optrace_agent_record, . - optrace_agent_record
  .popsection
)");

namespace optrace::agent {

namespace {

constexpr std::uint64_t kDefaultLimit = 1ULL << 30;
constexpr std::uint32_t kKeptChunks = 256;  // 16 MiB stay for the next recording: fresh memory
                                            // costs more than what is written to it.
constexpr std::uint64_t kKernelSignalSetSize = 8;
constexpr int kBlock = 0;  // SIG_BLOCK, SIG_SETMASK: the header that names them wants
constexpr int kTrapSignal = 5;
constexpr int kSetMask = 2;         // vector registers for nothing, but libc's sigset_t.
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14; others answer EINVAL.

struct Region {
  std::uint64_t base = 0;
  std::uint32_t capacity = 0;  // In chunks; 0: not there yet.
  std::uint32_t taken = 0;     // Chunks of this recording; may stand above capacity.
  std::uint64_t lost = 0;      // By threads without a chunk.
};

Region region;
std::uint64_t limit = kDefaultLimit;
std::uint32_t last_round = 0;

long system_call(long number, std::uint64_t a, std::uint64_t b, std::uint64_t c,
                 std::uint64_t d = 0) {
  long result = number;                          // NOLINT(misc-const-correctness): asm writes it.
  register std::uint64_t fourth asm("r10") = d;  // NOLINT(misc-const-correctness)
  asm volatile("syscall"
               : "+a"(result)
               : "D"(a), "S"(b), "d"(c), "r"(fourth)
               : "rcx", "r11", "memory");
  return result;
}

// While one lives, no signal handler runs on this thread but SIGTRAP's: a program that steps
// through itself would be killed if it could not have that one.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    const std::uint64_t most = ~(std::uint64_t{1} << (kTrapSignal - 1));
    system_call(SYS_rt_sigprocmask, kBlock, address_of(&most), address_of(&before_),
                kKernelSignalSetSize);
  }
  ~SignalsBlocked() {
    system_call(SYS_rt_sigprocmask, kSetMask, address_of(&before_), 0, kKernelSignalSetSize);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  static std::uint64_t address_of(const void* pointer) {
    return reinterpret_cast<std::uint64_t>(pointer);
  }
  std::uint64_t before_ = 0;
};

void count_lost(const ThreadBuffer& buffer, std::uint32_t round) {
  if (buffer.round == round && buffer.head != kNoChunk) {
    ++chunk(buffer.head)->lost;
  } else {
    __atomic_fetch_add(&region.lost, 1, __ATOMIC_RELAXED);
  }
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

// Makes a chunk the thread's own and takes its first slot. At no point between its lines does a
// handler find the old position with the new recording's number.
Event* begin_chunk(ThreadBuffer& buffer, std::uint32_t index, std::uint32_t round) {
  ChunkHeader* const header = chunk(index);
  const bool first_of_thread = buffer.round != round;
  if (first_of_thread) {
    buffer.cursor = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    buffer.head = index;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    buffer.round = round;
  }
  header->thread = static_cast<std::uint32_t>(system_call(SYS_gettid, 0, 0, 0));
  header->head = first_of_thread ? index : buffer.head;
  header->lost = 0;
  __atomic_store_n(&header->round, round, __ATOMIC_RELEASE);
  Event* const first = events_of(header);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  buffer.cursor = reinterpret_cast<std::uint64_t>(first + 1);
  return first;
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

bool limit_buffers(std::uint64_t bytes) {
  if (region.capacity != 0) {
    return false;
  }
  limit = bytes < kChunkSize ? kChunkSize : bytes;
  return true;
}

bool start_round() {
  if (!make_switch()) {
    return false;
  }
  std::uint64_t wanted = limit / kChunkSize;
  wanted = wanted < kNoChunk / 2 ? wanted : kNoChunk / 2;
  for (; region.capacity == 0 && wanted > 0; wanted /= 2) {  // Less where addresses are rationed.
    const std::uint64_t size = wanted * kChunkSize + kHugePage;
    void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED) {
      madvise(memory, size, MADV_DONTDUMP);
      madvise(memory, size, MADV_WIPEONFORK);
      madvise(memory, size, MADV_HUGEPAGE);
      region.base = (reinterpret_cast<std::uint64_t>(memory) + kHugePage - 1) & ~(kHugePage - 1);
      region.capacity = static_cast<std::uint32_t>(wanted);
    }
  }
  if (region.capacity == 0) {
    return false;
  }
  // The first event then finds its memory there.
  madvise(chunk(0), kChunkSize, kPopulateWrite);
  ++last_round;
  last_round += last_round == 0 ? 1 : 0;
  __atomic_store_n(&optrace_agent_switch->round, last_round, __ATOMIC_RELEASE);
  return true;
}

std::uint32_t running_round() {
  return optrace_agent_switch == nullptr
             ? 0
             : __atomic_load_n(&optrace_agent_switch->round, __ATOMIC_ACQUIRE);
}

std::uint32_t last_started_round() {
  return last_round;
}

void stop_round() {
  if (optrace_agent_switch != nullptr) {
    __atomic_store_n(&optrace_agent_switch->round, 0, __ATOMIC_RELEASE);
  }
}

std::uint32_t chunk_count() {
  const std::uint32_t taken = __atomic_load_n(&region.taken, __ATOMIC_ACQUIRE);
  return taken < region.capacity ? taken : region.capacity;
}

ChunkHeader* chunk(std::uint32_t index) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return reinterpret_cast<ChunkHeader*>(region.base + index * kChunkSize);
}

void collect(std::uint64_t start_ticks, std::uint64_t stop_ticks) {
  const std::uint32_t chunks = chunk_count();
  for (std::uint32_t i = 0; i < chunks; ++i) {
    ChunkHeader* const header = chunk(i);
    if (__atomic_load_n(&header->round, __ATOMIC_ACQUIRE) != last_round) {
      continue;  // Taken, but its thread has not come to use it.
    }
    Event* const events = events_of(header);
    std::uint32_t count = 0;
    for (std::uint32_t j = 0; j < kEventsPerChunk; ++j) {
      Event event = events[j];
      const bool of_python = event.id >= recording::kFirstPythonEvent;
      if (event.ticks < start_ticks || event.ticks > stop_ticks ||
          (!of_python && event.line != last_round)) {
        continue;  // An earlier recording's, or a late comer's.
      }
      event.line = of_python ? event.line : 0;
      events[count++] = event;
    }
    header->count = count;
    header->next = kNoChunk;
    if (header->head == i) {
      header->last = i;
    } else {
      ChunkHeader* const head = chunk(header->head);
      chunk(head->last)->next = i;
      head->last = i;
    }
  }
}

std::uint64_t lost_without_chunk() {
  return __atomic_load_n(&region.lost, __ATOMIC_RELAXED);
}

std::uint64_t lost_events() {
  std::uint64_t lost = lost_without_chunk();
  for (std::uint32_t i = 0; i < chunk_count(); ++i) {
    lost += chunk(i)->round == last_round ? chunk(i)->lost : 0;
  }
  return lost;
}

void empty_buffers() {
  const std::uint32_t chunks = chunk_count();
  if (chunks > kKeptChunks) {
    madvise(chunk(kKeptChunks), (chunks - kKeptChunks) * kChunkSize, MADV_DONTNEED);
  }
  __atomic_store_n(&region.taken, 0, __ATOMIC_RELEASE);
  __atomic_store_n(&region.lost, 0, __ATOMIC_RELAXED);
}

void release_buffers() {
  empty_buffers();
  if (region.capacity != 0) {
    madvise(chunk(0), region.capacity * kChunkSize, MADV_DONTNEED);
  }
}

Unrecorded::Unrecorded() : round_(optrace_agent_thread_buffer.round) {
  optrace_agent_thread_buffer.round = kUnrecorded;
}

Unrecorded::~Unrecorded() {
  optrace_agent_thread_buffer.round = round_;
}

Event* take_slot() {
  const std::uint32_t round = running_round();
  if (round == 0) {
    return nullptr;
  }
  Event* const slot = take_from_chunk(optrace_agent_thread_buffer, round);
  return slot != nullptr ? slot : optrace_agent_refill(round);
}

}  // namespace optrace::agent

/// Gives the calling thread a fresh chunk and returns its first slot; null when the event is lost.
Event* optrace_agent_refill(std::uint32_t round) {
  using namespace optrace::agent;
  ThreadBuffer& buffer = optrace_agent_thread_buffer;
  if (buffer.round == kUnrecorded) {
    return nullptr;
  }
  if (__atomic_load_n(&region.taken, __ATOMIC_RELAXED) >= region.capacity &&
      (buffer.round != round || buffer.cursor % kChunkSize == 0)) {
    count_lost(buffer, round);
    return nullptr;
  }
  const SignalsBlocked guard;
  Event* const slot = take_from_chunk(buffer, round);
  if (slot != nullptr) {
    return slot;  // A handler was here between the look and the block.
  }
  const std::uint32_t index = __atomic_fetch_add(&region.taken, 1, __ATOMIC_ACQ_REL);
  if (index >= region.capacity || running_round() != round) {
    count_lost(buffer, round);
    return nullptr;
  }
  system_call(SYS_madvise, reinterpret_cast<std::uint64_t>(chunk(index)), kChunkSize,
              kPopulateWrite);
  return begin_chunk(buffer, index, round);
}

#include "tracer/attach/stopped_thread.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>
#include <string>
#include <utility>

#include <elf.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/files/descriptor.h"
#include "tracer/attach/attach_target.h"
#include "tracer/attach/thread_control.h"
#include "tracer/attach/thread_return.h"

namespace optrace {

using Clock = std::chrono::steady_clock;

namespace {

constexpr int kStopMilliseconds = 100;
constexpr int kCallMilliseconds = 1000;
// The bytes below RSP that belong to the function (System V ABI, 3.2.2).
constexpr std::uint64_t kRedZone = 128;
constexpr std::uint64_t kRestoreSize = 9;  // mov $15,%rax; syscall
constexpr int kSystemCallStop = 0x80;      // PTRACE_O_TRACESYSGOOD
const std::set kFaults = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

Error ended(pid_t process) {
  return {ExitStatus::failed, fmt::format("process {} ended while optrace attached to it", process),
          "Start it again, and attach once it has imported torch."};
}

Error not_stopped(pid_t process, const char* why) {
  return {ExitStatus::failed, fmt::format("process {} can't be attached to: {}", process, why),
          "Try again in a moment."};
}

// Returns true if the thread is in a system call: /proc/PID/task/TID/syscall then begins with its
// number.
bool in_system_call(pid_t process, pid_t thread) {
  std::ifstream file(fmt::format("/proc/{}/task/{}/syscall", process, thread));
  const int first = file.get();
  return first >= '0' && first <= '9';
}

// Further internal codes of the kernel for system calls that a stop has interrupted
// (include/linux/errno.h).
constexpr std::int64_t kRestartAfterSignal = -512;  // ERESTARTSYS
constexpr std::int64_t kRestartAlways = -513;       // ERESTARTNOINTR
constexpr std::int64_t kRestartByBlock = -516;      // ERESTART_RESTARTBLOCK
constexpr std::uint64_t kSystemCallSize = 2;

// Returns the registers as the kernel sets them when the thread continues without a signal.
user_regs_struct after_restart(user_regs_struct registers) {
  if (static_cast<std::int64_t>(registers.orig_rax) < 0) return registers;
  switch (static_cast<std::int64_t>(registers.rax)) {
    case kRestartAfterSignal:
    case kRestartAlways:
    case kRestartNoHandler:
      registers.rax = registers.orig_rax;
      registers.rip -= kSystemCallSize;
      break;
    case kRestartByBlock:
      registers.rax = SYS_restart_syscall;
      registers.rip -= kSystemCallSize;
      break;
    default:
      break;
  }
  return registers;
}

template <typename T>
std::vector<std::byte> bytes_of(const T& value) {
  const std::span bytes = std::as_bytes(std::span(&value, 1));
  return {bytes.begin(), bytes.end()};
}

// Finds room for thread_return_code() behind the vDSO's content, which the kernel fills up with
// zeros to whole pages.
void find_spare_room(const Descriptor& memory, const MappedPart& part, CallingCode& calling) {
  const std::span code = thread_return_code();
  std::vector<std::byte> found(code.size());
  const std::uint64_t at = part.end - code.size();
  const ssize_t got = ::pread(memory.get(), found.data(), found.size(), static_cast<off_t>(at));
  const bool is_free =
      std::ranges::all_of(found, [](std::byte byte) { return byte == std::byte{}; });
  calling.spare_taken = std::ranges::equal(found, code);
  if (got == static_cast<ssize_t>(found.size()) && (is_free || calling.spare_taken))
    calling.spare = at;
}

}  // namespace

CallingCode find_calling_code(const RunningProcess& process) {
  constexpr std::array<unsigned char, 3> kSystemCall = {0x0f, 0x05, 0xc3};
  constexpr std::array<unsigned char, kRestoreSize> kRestore = {0x48, 0xc7, 0xc0, 0x0f, 0,
                                                                0,    0,    0x0f, 0x05};
  constexpr std::uint64_t kMaxCode = 16 << 20;
  CallingCode found;
  const Descriptor memory = process.open("mem", O_RDONLY | O_CLOEXEC);
  if (!memory) throw why_not_allowed(process.id(), errno);
  for (const MappedPart& part : process.mapped_parts()) {
    if (!part.executable) continue;
    if (part.path == kVdso) find_spare_room(memory, part, found);
    const std::string name = std::filesystem::path(part.path).filename();
    const bool has_locks = name.starts_with("libc.") || name.starts_with("libc-") ||
                           name.starts_with("ld-") || name.starts_with("libpthread");
    if (!has_locks) continue;
    found.locking.push_back({part.start, part.end});
    std::vector<unsigned char> code(std::min(part.end - part.start, kMaxCode));
    const ssize_t got =
        ::pread(memory.get(), code.data(), code.size(), static_cast<off_t>(part.start));
    code.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    const auto look_for = [&](std::span<const unsigned char> bytes, std::uint64_t& address) {
      const auto at = std::search(code.begin(), code.end(), bytes.begin(), bytes.end());
      if (address == 0 && at != code.end())
        address = part.start + static_cast<std::uint64_t>(at - code.begin());
    };
    look_for(kSystemCall, found.system_call);
    look_for(kRestore, found.restore);
  }
  if (found.system_call == 0 || found.restore == 0) {
    throw Error(ExitStatus::failed,
                fmt::format("the C library of process {} is not supported", process.id()),
                "Start the program with `optrace run` instead.");
  }
  return found;
}

StoppedThread::StoppedThread(pid_t process, CallingCode code, std::chrono::milliseconds timeout)
    : process_(process), code_(std::move(code)) {
  const auto end = Clock::now() + timeout;
  do {
    const std::vector<pid_t> threads = threads_of(process);
    for (const bool any_code : {false, true}) {
      for (const pid_t thread : threads) {
        if (Clock::now() >= end) break;
        if ((any_code || in_system_call(process, thread)) && stop(thread, any_code)) return;
      }
    }
    const timespec pause{0, 1'000'000};
    ::nanosleep(&pause, nullptr);
  } while (Clock::now() < end);
  throw not_stopped(process,
                    "none of its threads reaches a point where its interpreter can be called");
}

StoppedThread::~StoppedThread() {
  try {
    if (called_ && !gone_) come_back();
    if (return_ == code_.spare && !code_.spare_taken && !gone_)
      put_in_spare(std::vector<std::byte>(thread_return_code().size()));
  } catch (const Error&) {
    // The process has ended, or a call failed: the frame restores the thread.
    called_ = false;
  }
  if (!gone_) detach();
}

// Seizes the thread and stops it. Returns false if it can't be used for a call; it then runs again.
bool StoppedThread::stop(pid_t thread, bool any_code) {
  if (trace(PTRACE_SEIZE, thread, 0, PTRACE_O_TRACESYSGOOD) != 0) {
    const int error = errno;
    // Ended, or a worker of the kernel. The main thread's error holds for all.
    if (thread != process_) return false;
    throw error == ESRCH ? ended(process_) : why_not_allowed(process_, error);
  }
  thread_ = thread;
  const auto end = Clock::now() + std::chrono::milliseconds(kStopMilliseconds);
  const WaitedFor came = interrupt_thread(thread, status_, end);
  if (came == WaitedFor::end) {
    gone_ = true;
    throw ended(process_);
  }
  if (came == WaitedFor::nothing) {
    if (!leave_once_stopped(thread))
      throw not_stopped(process_, "a thread of it does not stop, as in uninterruptible sleep");
    return false;
  }
  if (WSTOPSIG(status_) != SIGTRAP) {
    detach();
    throw Error(ExitStatus::failed, fmt::format("process {} is stopped", process_),
                fmt::format("Continue it first: kill -CONT {}", process_));
  }
  if (trace(PTRACE_GETREGS, thread, 0, address_of(before_)) != 0) throw ended(process_);
  const bool interrupted_call = static_cast<std::int64_t>(before_.orig_rax) >= 0;
  const bool in_busy_code = std::ranges::any_of(code_.locking, [this](const auto& range) {
    return before_.rip >= range.first && before_.rip < range.last;
  });
  if (!interrupted_call && (!any_code || in_busy_code)) {
    detach();
    return false;
  }
  keep_state();
  write_frame();
  return true;
}

void StoppedThread::keep_state() {
  constexpr std::size_t kMax = 1 << 16;
  extended_.resize(kMax);
  iovec buffer{extended_.data(), extended_.size()};
  if (trace(PTRACE_GETREGSET, thread_, NT_X86_XSTATE, address_of(buffer)) != 0 ||
      trace(PTRACE_GETSIGMASK, thread_, sizeof mask_, address_of(mask_)) != 0) {
    const int error = errno;
    detach();
    throw Error(
        ExitStatus::failed,
        fmt::format("the state of process {} can't be read: {}", process_, describe_errno(error)),
        "Attaching needs Linux 5.6 or later on x86-64.");
  }
  extended_.resize(buffer.iov_len);
}

// Returns the frame from which rt_sigreturn restores the thread's state
// (arch/x86/include/asm/sigframe.h: struct rt_sigframe), without its return address.
std::vector<std::byte> StoppedThread::signal_frame(const user_regs_struct& state,
                                                   std::uint64_t extended_at) const {
  constexpr std::uint64_t kContextFlags = 1 | 2 | 4;  // XSTATE, SIGCONTEXT_SS, STRICT_RESTORE_SS
  struct KernelFrame {
    std::uint64_t flags, link;
    std::uint64_t stack, stack_flags, stack_size;
    std::array<std::uint64_t, 23> registers;
    std::uint64_t extended;
    std::array<std::uint64_t, 8> reserved;
    std::uint64_t mask;
    std::array<std::uint64_t, 16> information;
  };
  KernelFrame made{};
  made.flags = kContextFlags;
  made.stack_flags = 0xFFFF;  // Invalid, so that the alternative signal stack stays unchanged.
  made.extended = extended_at;
  made.mask = mask_;
  auto& registers = made.registers;
  registers[REG_R8] = state.r8;
  registers[REG_R9] = state.r9;
  registers[REG_R10] = state.r10;
  registers[REG_R11] = state.r11;
  registers[REG_R12] = state.r12;
  registers[REG_R13] = state.r13;
  registers[REG_R14] = state.r14;
  registers[REG_R15] = state.r15;
  registers[REG_RDI] = state.rdi;
  registers[REG_RSI] = state.rsi;
  registers[REG_RBP] = state.rbp;
  registers[REG_RBX] = state.rbx;
  registers[REG_RDX] = state.rdx;
  registers[REG_RAX] = state.rax;
  registers[REG_RCX] = state.rcx;
  registers[REG_RSP] = state.rsp;
  registers[REG_RIP] = state.rip;
  registers[REG_EFL] = state.eflags;
  registers[REG_CSGSFS] = state.cs | state.gs << 16 | state.fs << 32 | state.ss << 48;
  registers[REG_OLDMASK] = mask_;
  return bytes_of(made);
}

// Writes the frame from which the code at `return_` restores the thread's state. Its first word is
// the return address for the called function.
void StoppedThread::write_frame() {
  constexpr std::uint32_t kMagic1 = 0x46505853, kMagic2 = 0x46505845;
  constexpr std::size_t kSoftwareBytes = 464;  // In the FXSAVE area; ptrace stores XCR0 there.
  struct SoftwareBytes {
    std::uint32_t magic, extended_size;
    std::uint64_t features;
    std::uint32_t state_size, padding[7];
  };
  std::vector<std::byte> extended = extended_;
  const std::size_t size = extended.size();
  SoftwareBytes software{};
  std::memcpy(&software.features, &extended[kSoftwareBytes], sizeof software.features);
  software.magic = kMagic1;
  software.extended_size = static_cast<std::uint32_t>(size + sizeof kMagic2);
  software.state_size = static_cast<std::uint32_t>(size);
  std::memcpy(&extended[kSoftwareBytes], &software, sizeof software);
  extended.resize(size + sizeof kMagic2);
  std::memcpy(&extended[size], &kMagic2, sizeof kMagic2);

  scratch_ = (before_.rsp - kRedZone - kScratchBytes) & ~std::uint64_t{63};
  const std::uint64_t extended_at = (scratch_ - extended.size()) & ~std::uint64_t{63};
  const user_regs_struct state = after_restart(before_);
  const bool in_kernels_memory = static_cast<std::int64_t>(before_.rax) == kRestartByBlock;
  const bool by_code = in_kernels_memory && code_.spare != 0 && put_in_spare(thread_return_code());
  return_ = by_code ? code_.spare : code_.restore;
  return_number_ = by_code ? kThreadReturnCall : SYS_rt_sigreturn;
  return_called_ = return_ + (by_code ? thread_return_call_offset() : kRestoreSize);
  const std::vector<std::byte> made = by_code ? bytes_of(thread_return(state, mask_, extended_at))
                                              : signal_frame(state, extended_at);
  const std::uint64_t frame =
      ((extended_at - sizeof return_ - made.size()) & ~std::uint64_t{15}) - sizeof return_;

  std::vector<std::byte> bytes(before_.rsp - kRedZone - frame);
  std::memcpy(bytes.data(), &return_, sizeof return_);
  std::ranges::copy(made, bytes.begin() + sizeof return_);
  std::memcpy(&bytes[extended_at - frame], extended.data(), extended.size());
  const iovec from{bytes.data(), bytes.size()};
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const iovec to{reinterpret_cast<void*>(frame), bytes.size()};
  if (::process_vm_writev(process_, &from, 1, &to, 1, 0) != static_cast<ssize_t>(bytes.size()))
    throw not_stopped(process_, "its stack is full");
  frame_ = frame;
}

// Returns false if the kernel does not let debuggers change the vDSO.
bool StoppedThread::put_in_spare(std::span<const std::byte> code) const {
  for (std::size_t at = 0; at < code.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, &code[at], sizeof word);
    if (trace(PTRACE_POKEDATA, thread_, code_.spare + at, word) != 0) return false;
  }
  return true;
}

// Resumes the thread, unless it is running, until it stops again. Returns false if it has not
// stopped within `milliseconds`. Keeps a signal that can't wait for later.
bool StoppedThread::resume_until_stop(int request, int milliseconds) {
  const auto end = Clock::now() + std::chrono::milliseconds(milliseconds);
  if (!running_) trace(request, thread_, 0, 0);
  running_ = true;
  while (wait_for_stop(end)) {
    running_ = false;
    const int signal = WSTOPSIG(status_);
    if (status_ >> 16 == PTRACE_EVENT_STOP || signal == (SIGTRAP | kSystemCallStop)) return true;
    if (kFaults.contains(signal)) {
      throw Error(ExitStatus::failed,
                  fmt::format("a call in process {} failed with signal {}", process_, signal),
                  "Report it with this line and the version of its Python.");
    }
    signals_.push_back(signal);
    trace(request, thread_, 0, 0);
    running_ = true;
  }
  return false;
}

bool StoppedThread::at_restoring_call() const {
  user_regs_struct registers{};
  return status_ >> 8 == (SIGTRAP | kSystemCallStop) &&
         trace(PTRACE_GETREGS, thread_, 0, address_of(registers)) == 0 &&
         registers.orig_rax == return_number_ && registers.rip == return_called_;
}

void StoppedThread::run(std::uint64_t address, user_regs_struct registers) {
  registers.rsp = frame_;
  registers.rip = address;
  registers.orig_rax = ~0ULL;  // The thread is in no system call.
  constexpr std::uint64_t kDirectionFlag = 1 << 10;
  registers.eflags &= ~kDirectionFlag;
  std::uint64_t mask = ~0ULL;
  for (const int fault : kFaults) mask &= ~(1ULL << (fault - 1));
  if (trace(PTRACE_SETREGS, thread_, 0, address_of(registers)) != 0 ||
      trace(PTRACE_SETSIGMASK, thread_, sizeof mask, address_of(mask)) != 0)
    throw ended(process_);
  called_ = true;
  const auto end = Clock::now() + std::chrono::milliseconds(kCallMilliseconds);
  do {
    if (!resume_until_stop(PTRACE_SYSCALL, kCallMilliseconds)) break;
    user_regs_struct now{};
    if (trace(PTRACE_GETREGS, thread_, 0, address_of(now)) != 0) throw ended(process_);
    if (now.rip == code_.system_call + kSystemCallSize)
      result_ = static_cast<std::int64_t>(now.rax);
    if (at_restoring_call()) return;
  } while (Clock::now() < end);
  throw not_stopped(process_, "a function of its interpreter does not return");
}

void StoppedThread::call(std::uint64_t address, std::initializer_list<std::uint64_t> arguments) {
  user_regs_struct registers = before_;
  const std::array places = {&registers.rdi, &registers.rsi, &registers.rdx,
                             &registers.rcx, &registers.r8,  &registers.r9};
  auto place = places.begin();
  for (const std::uint64_t argument : arguments) **place++ = argument;
  registers.rax = 0;  // No floating-point arguments.
  run(address, registers);
}

std::int64_t StoppedThread::system_call(long number,
                                        std::initializer_list<std::uint64_t> arguments) {
  user_regs_struct registers = before_;
  const std::array places = {&registers.rdi, &registers.rsi, &registers.rdx,
                             &registers.r10, &registers.r8,  &registers.r9};
  auto place = places.begin();
  for (const std::uint64_t argument : arguments) **place++ = argument;
  registers.rax = static_cast<std::uint64_t>(number);
  run(code_.system_call, registers);
  return result_;
}

// Moves the thread to a stop at which the kernel checks for signals and for system calls to
// continue, with its original state. At every moment until then, the frame would have the same
// effect, less exactly.
void StoppedThread::come_back() {
  if (at_restoring_call()) {
    user_regs_struct registers{};
    trace(PTRACE_GETREGS, thread_, 0, address_of(registers));
    registers.orig_rax = ~0ULL;
    registers.rip = return_;
    trace(PTRACE_SETREGS, thread_, 0, address_of(registers));
  }
  do {  // Another stop cancels the requested one.
    trace(PTRACE_INTERRUPT, thread_, 0, 0);
    if (!resume_until_stop(PTRACE_CONT, kCallMilliseconds)) throw ended(process_);
  } while (status_ >> 16 != PTRACE_EVENT_STOP);
  iovec extended{extended_.data(), extended_.size()};
  trace(PTRACE_SETREGSET, thread_, NT_X86_XSTATE, address_of(extended));
  trace(PTRACE_SETSIGMASK, thread_, sizeof mask_, address_of(mask_));
  trace(PTRACE_SETREGS, thread_, 0, address_of(before_));
}

void StoppedThread::detach() {
  trace(PTRACE_DETACH, thread_, 0, 0);
  for (const int signal : std::exchange(signals_, {}))
    ::syscall(SYS_tgkill, process_, thread_, signal);
}

// Returns false if the thread has not stopped by `end`. Throws if it is gone.
bool StoppedThread::wait_for_stop(Clock::time_point end) {
  const WaitedFor came = wait_for_thread(thread_, status_, end);
  if (came != WaitedFor::end) return came == WaitedFor::stop;
  gone_ = true;
  throw ended(process_);
}

}  // namespace optrace

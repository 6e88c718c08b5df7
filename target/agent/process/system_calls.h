#pragma once

// System calls without libc, whose functions may have probes and set errno. Uses general registers
// only, so the record routine can call these.

#include <cstdint>

#include <sys/syscall.h>

namespace optrace::agent {

/// Returns the kernel's result, -errno on failure.
inline long system_call(long number, std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0,
                        std::uint64_t d = 0, std::uint64_t e = 0, std::uint64_t f = 0) {
  long result = number;                          // NOLINT(misc-const-correctness): asm writes it.
  register std::uint64_t fourth asm("r10") = d;  // NOLINT(misc-const-correctness)
  register std::uint64_t fifth asm("r8") = e;    // NOLINT(misc-const-correctness)
  register std::uint64_t sixth asm("r9") = f;    // NOLINT(misc-const-correctness)
  asm volatile("syscall"
               : "+a"(result)
               : "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
               : "rcx", "r11", "memory");
  return result;
}

inline std::uint64_t address_of(const volatile void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

constexpr std::uint64_t kKernelSignalSetSize = 8;

/// Returns true if the 8 bytes at `address` are readable. The check passes them as the signal mask
/// of rt_sigprocmask with an invalid operation, because sandboxes allow that system call.
inline bool is_readable(std::uint64_t address) {
  constexpr std::uint64_t kNoSuchPurpose = 0x7FFF'FFFF;
  constexpr long kInvalid = -22;  // EFAULT if the bytes are not readable.
  return system_call(SYS_rt_sigprocmask, kNoSuchPurpose, address, 0, kKernelSignalSetSize) ==
         kInvalid;
}

/// Returns true if the 4 bytes at `address`, a multiple of 4, are writable. The check atomically
/// writes back their current value.
inline bool is_writable(std::uint64_t address) {
  constexpr std::uint64_t kWakeAfterOr = 5 | 128;  // FUTEX_WAKE_OP, private.
  constexpr std::uint64_t kOrZero = 2ULL << 28;    // FUTEX_OP_OR; compared with 0 for equality.
  const std::uint32_t nobody_waits_here = 0;
  return system_call(SYS_futex, address_of(&nobody_waits_here), kWakeAfterOr, 0, 0, address,
                     kOrZero) >= 0;
}

/// Blocks all signals on the calling thread during its lifetime, except SIGTRAP: blocking that one
/// would kill a program that single-steps itself.
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
  // SIG_BLOCK and so on. The header that defines them needs vector registers for libc's sigset_t.
  static constexpr int kBlock = 0;
  static constexpr int kSetMask = 2;
  static constexpr int kTrapSignal = 5;
  std::uint64_t before_ = 0;
};

}  // namespace optrace::agent

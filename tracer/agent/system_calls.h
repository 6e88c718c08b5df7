#pragma once

// System calls without libc: its functions may be probed, and set errno. For general registers
// only, so that the record routine can come here.

#include <cstdint>

#include <sys/syscall.h>

namespace optrace::agent {

/// What the kernel gave: -errno if it failed.
inline long system_call(long number, std::uint64_t a, std::uint64_t b = 0, std::uint64_t c = 0,
                        std::uint64_t d = 0) {
  long result = number;                          // NOLINT(misc-const-correctness): asm writes it.
  register std::uint64_t fourth asm("r10") = d;  // NOLINT(misc-const-correctness)
  asm volatile("syscall"
               : "+a"(result)
               : "D"(a), "S"(b), "d"(c), "r"(fourth)
               : "rcx", "r11", "memory");
  return result;
}

inline std::uint64_t address_of(const volatile void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

/// While one lives, no signal handler runs on this thread but SIGTRAP's: a program that steps
/// through itself would be killed if it could not have that one.
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
  // SIG_BLOCK and so on: the header that names them wants vector registers for libc's sigset_t.
  static constexpr int kBlock = 0;
  static constexpr int kSetMask = 2;
  static constexpr int kTrapSignal = 5;
  static constexpr std::uint64_t kKernelSignalSetSize = 8;
  std::uint64_t before_ = 0;
};

}  // namespace optrace::agent

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <sys/user.h>

namespace optrace {

/// What thread_return_code() gives a thread. It lies where the thread's stack pointer points to.
struct ThreadReturn {
  std::uint64_t extended = 0;  ///< Address of the extended state (XSAVE, standard format).
  std::uint64_t mask = 0;      ///< The signal mask.
  std::uint64_t r8 = 0, r9 = 0, r10 = 0, r11 = 0, r12 = 0, r13 = 0, r14 = 0, r15 = 0;
  std::uint64_t rbx = 0, rbp = 0, rdi = 0, rsi = 0, rdx = 0, rcx = 0, rax = 0;
  std::uint64_t rip = 0, cs = 0, eflags = 0, rsp = 0, ss = 0;  ///< As iretq takes them.
};

/// Returns the state of a thread with these registers.
ThreadReturn thread_return(const user_regs_struct& registers, std::uint64_t mask,
                           std::uint64_t extended);

/// Code that gives a thread all of a ThreadReturn. Unlike rt_sigreturn, it leaves alone what the
/// kernel remembers of an interrupted system call: after rt_sigreturn, restart_syscall fails with
/// EINTR, so that a sleep ends too soon. The code is position-independent.
std::span<const std::byte> thread_return_code();

/// The system call with which that code begins, and the offset of the instruction behind it.
inline constexpr std::uint64_t kThreadReturnCall = 14;  // rt_sigprocmask
std::size_t thread_return_call_offset();

}  // namespace optrace

#include "tracer/attach/thread_return.h"

#include <csignal>

#include <sys/syscall.h>

namespace optrace {

static_assert(offsetof(ThreadReturn, mask) == 8 && sizeof(ThreadReturn) == 176);
static_assert(SYS_rt_sigprocmask == kThreadReturnCall && SIG_SETMASK == 2);
asm(R"(
  .pushsection .rodata
  .balign 8
optrace_thread_return_begin:
  mov $2, %edi
  lea 8(%rsp), %rsi
  xor %edx, %edx
  mov $8, %r10d
  mov $14, %eax
  syscall
optrace_thread_return_called:
  pop %rdi
  mov $-1, %eax
  mov $-1, %edx
  xrstor64 (%rdi)
  pop %rdi
  pop %r8
  pop %r9
  pop %r10
  pop %r11
  pop %r12
  pop %r13
  pop %r14
  pop %r15
  pop %rbx
  pop %rbp
  pop %rdi
  pop %rsi
  pop %rdx
  pop %rcx
  pop %rax
  iretq
  .balign 8
optrace_thread_return_end:
  .popsection
)");

}  // namespace optrace

extern "C" {
extern const std::byte optrace_thread_return_begin[];
extern const std::byte optrace_thread_return_called[];
extern const std::byte optrace_thread_return_end[];
}

namespace optrace {

std::span<const std::byte> thread_return_code() {
  return {optrace_thread_return_begin, optrace_thread_return_end};
}

std::size_t thread_return_call_offset() {
  return static_cast<std::size_t>(optrace_thread_return_called - optrace_thread_return_begin);
}

ThreadReturn thread_return(const user_regs_struct& registers, std::uint64_t mask,
                           std::uint64_t extended) {
  return {.extended = extended,
          .mask = mask,
          .r8 = registers.r8,
          .r9 = registers.r9,
          .r10 = registers.r10,
          .r11 = registers.r11,
          .r12 = registers.r12,
          .r13 = registers.r13,
          .r14 = registers.r14,
          .r15 = registers.r15,
          .rbx = registers.rbx,
          .rbp = registers.rbp,
          .rdi = registers.rdi,
          .rsi = registers.rsi,
          .rdx = registers.rdx,
          .rcx = registers.rcx,
          .rax = registers.rax,
          .rip = registers.rip,
          .cs = registers.cs,
          .eflags = registers.eflags,
          .rsp = registers.rsp,
          .ss = registers.ss};
}

}  // namespace optrace

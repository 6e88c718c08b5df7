#include "tracer/attach/text_thread.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

namespace optrace {

// The memory outlives the first thread's part of the code: the second thread waits for the GIL,
// which the first one holds until it has returned. The system call that unmaps the code is a tail
// call.
static_assert(offsetof(TextThread, withdrawn) == 80 && offsetof(TextThread, ends) == 96 &&
              offsetof(TextThread, digits) == 104 && offsetof(TextThread, lowest_end) == 120 &&
              offsetof(TextThread, is_initialized) == 128 && sizeof(TextThread) == 136);
static_assert(SYS_close == 3 && SYS_munmap == 11 && SYS_madvise == 28 && SYS_getpid == 39 &&
              SYS_socketpair == 53 && SYS_fcntl == 72);
static_assert(F_DUPFD_CLOEXEC == 1030);
static_assert(AF_UNIX == 1 && (SOCK_STREAM | SOCK_CLOEXEC) == 0x80001);
static_assert(MADV_DONTFORK == 10 && kNoInterpreter == -3 && kFull == -11);
asm(R"(
  .pushsection .rodata
  .balign 16
optrace_text_thread_begin:
  push %rbx
  mov %rdi, %rbx
  mov $1, %eax
  xchg %rax, 72(%rbx)
  cmpq $0, 80(%rbx)
  jne 2f
  mov $39, %eax
  call *(%rbx)
  cmp %eax, 64(%rbx)
  jne 1f
  lea 3f(%rip), %rdi
  mov %rbx, %rsi
  call *8(%rbx)
  cmp $-1, %rax
  je 1f
  xor %eax, %eax
  pop %rbx
  ret
1:
  call 9f
2:
  mov 40(%rbx), %rdi
  mov 48(%rbx), %rsi
  mov $11, %eax
  mov (%rbx), %rdx
  pop %rbx
  jmp *%rdx
3:
  push %rbx
  mov %rdi, %rbx
  sub $16, %rsp
  call *16(%rbx)
  mov %eax, (%rsp)
  mov 40(%rbx), %rdi
  mov 48(%rbx), %rsi
  mov $10, %edx
  mov $28, %eax
  call *(%rbx)
  lea 136(%rbx), %rdi
  call *32(%rbx)
  mov (%rsp), %edi
  call *24(%rbx)
  add $16, %rsp
  jmp 2b
optrace_text_thread_connect:
  push %rbx
  mov %rdi, %rbx
  movq $-3, 88(%rbx)
  call *128(%rbx)
  test %eax, %eax
  je 4f
  mov $1, %edi
  mov $0x80001, %esi
  xor %edx, %edx
  lea 96(%rbx), %r10
  mov $53, %eax
  call *(%rbx)
  mov %rax, 88(%rbx)
  test %rax, %rax
  jne 4f
  mov 96(%rbx), %edi
  call 7f
  mov %edi, 96(%rbx)
  mov %edi, %eax
  mov 104(%rbx), %rdi
  call 5f
  mov 100(%rbx), %edi
  call 7f
  mov %edi, 100(%rbx)
  mov %edi, %eax
  mov 112(%rbx), %rdi
  call 5f
  lea optrace_text_thread_begin(%rip), %rdi
  mov %rbx, %rsi
  call *56(%rbx)
  test %eax, %eax
  je 4f
  movq $-11, 88(%rbx)
  call 9f
4:
  pop %rbx
  ret
5:
  mov $10, %ecx
6:
  xor %edx, %edx
  div %ecx
  add $48, %dl
  dec %rdi
  mov %dl, (%rdi)
  test %eax, %eax
  jne 6b
  ret
7:
  mov $1030, %esi
  mov 120(%rbx), %rdx
  mov $72, %eax
  call *(%rbx)
  test %eax, %eax
  js 8f
  mov %eax, %edx
  mov $3, %eax
  call *(%rbx)
  mov %edx, %edi
8:
  ret
9:
  mov 96(%rbx), %edi
  mov $3, %eax
  call *(%rbx)
  mov 100(%rbx), %edi
  mov $3, %eax
  call *(%rbx)
  ret
optrace_text_thread_end:
  .popsection
)");

}  // namespace optrace

extern "C" {
extern const std::byte optrace_text_thread_begin[];
extern const std::byte optrace_text_thread_connect[];
extern const std::byte optrace_text_thread_end[];
}

namespace optrace {

std::span<const std::byte> text_thread_code() {
  return {optrace_text_thread_begin, optrace_text_thread_end};
}

std::size_t connect_offset() {
  return static_cast<std::size_t>(optrace_text_thread_connect - optrace_text_thread_begin);
}

}  // namespace optrace

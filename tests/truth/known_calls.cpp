// Calls of every kind, known in advance. A test compares single_step's output with them by name.

#include <csetjmp>
#include <cstdint>
#include <exception>

#define KNOWN extern "C" __attribute__((noinline, noclone, used))

namespace {
std::jmp_buf g_return;
volatile int g_sink = 0;
}  // namespace

KNOWN void known_leaf() {
  g_sink = g_sink + 1;
}

// At -O2 both end in a tail call: known_jumps() and known_jumps_on() leave no frame.
KNOWN void known_jumps_on() {
  known_leaf();
}
KNOWN void known_jumps() {
  known_jumps_on();
}

KNOWN void known_recursion(int depth) {
  if (depth > 0) known_recursion(depth - 1);
  known_leaf();
}

KNOWN void known_thrower() {
  known_leaf();
  throw std::exception();
}
KNOWN void known_passed_over() {
  known_thrower();
  g_sink = g_sink + 1;
}
KNOWN void known_catcher() {
  try {
    known_passed_over();
  } catch (const std::exception&) {
    known_leaf();
  }
}

KNOWN void known_long_jumper() {
  std::longjmp(g_return, 1);
}
KNOWN void known_jumped_over() {
  known_long_jumper();
  g_sink = g_sink + 1;
}
KNOWN void known_set_jump() {
  if (setjmp(g_return) == 0) {
    known_jumped_over();
  } else {
    known_leaf();
  }
  g_sink = g_sink + 1;
}

// A loop whose top is the function's entry.
extern "C" void known_loop(int turns);
asm(".text\n"
    ".globl known_loop\n"
    ".type known_loop, @function\n"
    "known_loop:\n"
    "  dec %edi\n"
    "  jnz known_loop\n"
    "  ret\n"
    ".size known_loop, .-known_loop\n");

// Calls and jumps of every encoding. The functions that end in one of the others have no return.
extern "C" void known_encodings();
asm(".text\n"
    ".macro known name\n"
    ".globl \\name\n"
    ".type \\name, @function\n"
    "\\name:\n"
    ".endm\n"
    "known known_end\n"
    "  ret\n"
    ".size known_end, .-known_end\n"
    "known known_jumps_if_zero\n"
    "  test %edi, %edi\n"
    "  jz known_end\n"
    "  ret\n"
    ".size known_jumps_if_zero, .-known_jumps_if_zero\n"
    "known known_falls_through\n"
    "  mov $3, %ecx\n"
    "  lea -64(%rsp), %rdi\n"
    "  rep stosb\n"
    ".size known_falls_through, .-known_falls_through\n"
    "known known_after\n"
    "  ret\n"
    ".size known_after, .-known_after\n"
    "known known_pops\n"
    "  ret $8\n"
    ".size known_pops, .-known_pops\n"
    "known known_switch\n"
    "  lea 1f(%rip), %rdx\n"
    "  add $2f-1f, %rdx\n"
    "  jmp *%rdx\n"
    "1: call known_pops\n"
    "2: xor %edi, %edi\n"
    "  jmp known_jumps_if_zero\n"
    ".size known_switch, .-known_switch\n"
    "known known_encodings\n"
    "  push %rbx\n"
    "  push %r12\n"
    "  push %r13\n"
    "  lea known_pointers(%rip), %rbx\n"
    "  mov %rbx, %r12\n"
    "  mov %rbx, %r13\n"
    "  mov $1, %ecx\n"
    "  call *known_pointers(%rip)\n"
    "  call *(%rbx)\n"
    "  call *-8(%rbx, %rcx, 8)\n"
    "  call *(%r12)\n"
    "  call *(%r13)\n"
    "  shl $7, %ecx\n"
    "  call *-1024(%r13, %rcx, 8)\n"
    "  mov (%rbx), %r11\n"
    "  push %r11\n"
    "  call *(%rsp)\n"
    "  call *%r11\n"
    "  call known_pops\n"
    "  .byte 0x66, 0x48\n"
    "  call known_end\n"
    "  mov $1, %edi\n"
    "  call known_jumps_if_zero\n"
    "  call known_falls_through\n"
    "  call known_switch\n"
    "  mov (%rbx), %rax\n"
    "  pop %r13\n"
    "  pop %r12\n"
    "  pop %rbx\n"
    "  jmp *%rax\n"
    ".size known_encodings, .-known_encodings\n"
    ".section .data.rel.local, \"aw\"\n"
    "known_pointers: .quad known_end\n"
    ".text\n");

extern "C" void known_calls(void (*begin)(), std::uint64_t (*end)()) {
  begin();
  known_jumps();
  known_recursion(2);
  known_catcher();
  known_set_jump();
  known_loop(3);
  known_encodings();
  known_leaf();
  end();
}

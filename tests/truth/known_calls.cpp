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

extern "C" void known_calls(void (*begin)(), std::uint64_t (*end)()) {
  begin();
  known_jumps();
  known_recursion(2);
  known_catcher();
  known_set_jump();
  known_loop(3);
  known_leaf();
  end();
}

// Functions that leave the library for its caller: by an exception, or by calling back.

#include <stdexcept>

extern "C" __attribute__((visibility("default"), noinline)) int target_throws(int value) {
  throw std::runtime_error(value > 0 ? "positive" : "not positive");
}

// The first bytes are fixed because the test displaces them by hand.
asm(R"(
  .text
  .p2align 4
  .globl target_calls_thrower
  .type target_calls_thrower, @function
target_calls_thrower:
  .cfi_startproc
  .byte 0x48, 0x8d, 0x64, 0x24, 0xf8
  .cfi_def_cfa_offset 16
  call target_throws@PLT
  addq $8, %rsp
  .cfi_def_cfa_offset 8
  ret
  .cfi_endproc
  .size target_calls_thrower, . - target_calls_thrower
)");

// Calls a function. It is no target of a probe.
extern "C" [[gnu::visibility("default")]] int calls_back(void (*function)()) {
  function();
  return 1;  // So that the call is no tail call.
}

// Functions whose first instructions are known byte by byte. The agent's tests displace them with
// hand-written plans. Each function has a different kind of entry.

asm(R"(
  .text

  # Nothing special: 5 bytes of whole instructions. Returns its argument plus 1.
  .p2align 4
  .globl target_plain
  .type target_plain, @function
target_plain:
.Lplain:
  movl %edi, %eax
  addl $1, %eax
  ret
  .size target_plain, . - target_plain

  # Touches nothing at all.
  .p2align 4
  .globl target_nothing
  .type target_nothing, @function
target_nothing:
  nop
  nop
  nop
  nop
  nop
  ret
  .size target_nothing, . - target_nothing

  # RIP-relative. Returns target_value.
  .p2align 4
  .globl target_rip_relative
  .type target_rip_relative, @function
target_rip_relative:
  .byte 0x8b, 0x05
  .long .Lvalue - . - 4
  ret
  .size target_rip_relative, . - target_rip_relative

  # RIP-relative with an immediate behind the displacement. Adds 3 to target_sum, returns it.
  .p2align 4
  .globl target_rip_relative_immediate
  .type target_rip_relative_immediate, @function
target_rip_relative_immediate:
  .byte 0x83, 0x05
  .long .Lsum - . - 5
  .byte 3
  movl .Lsum(%rip), %eax
  ret
  .size target_rip_relative_immediate, . - target_rip_relative_immediate

  # A relative call first. Returns its argument plus 101.
  .p2align 4
  .globl target_call_first
  .type target_call_first, @function
target_call_first:
  .byte 0xe8
  .long .Lplain - . - 4
  addl $100, %eax
  ret
  .size target_call_first, . - target_call_first

  # A relative jump first: a tail call of target_plain.
  .p2align 4
  .globl target_jump_first
  .type target_jump_first, @function
target_jump_first:
  .byte 0xe9
  .long .Lplain - . - 4
  .size target_jump_first, . - target_jump_first

  # A short conditional jump among the first bytes. Returns 7 for 0, else its argument.
  .p2align 4
  .globl target_branch_first
  .type target_branch_first, @function
target_branch_first:
  testl %edi, %edi
  .byte 0x74, 5
  movl %edi, %eax
  ret
  nop
  nop
  .globl target_branch_first_zero
target_branch_first_zero:
  movl $7, %eax
  ret
  .size target_branch_first, . - target_branch_first

  # An indirect-branch landing pad first. Returns its argument plus 2.
  .p2align 4
  .globl target_landing_pad
  .type target_landing_pad, @function
target_landing_pad:
  endbr64
  movl %edi, %eax
  addl $2, %eax
  ret
  .size target_landing_pad, . - target_landing_pad

  # Branches to its own entry with the red zone and the carry flag live, as hand-written code and
  # GCC's do. Returns n + (n - 1) + ... + 1 + (n - 1) for n.
  .p2align 4
  .globl target_own_entry_start
  .type target_own_entry_start, @function
target_own_entry_start:
  movq $0, -8(%rsp)
  clc
  jmp .Lown_entry
  .size target_own_entry_start, . - target_own_entry_start
  .p2align 4
  .globl target_own_entry
  .type target_own_entry, @function
target_own_entry:
.Lown_entry:
  adcq %rdi, -8(%rsp)
  subl $1, %edi
  jz 1f
  stc
  jmp .Lown_entry
1:
  movq -8(%rsp), %rax
  ret
  .size target_own_entry, . - target_own_entry

  # Calls itself as often as its argument says, and returns that.
  .p2align 4
  .globl target_recurses
  .type target_recurses, @function
target_recurses:
.Lrecurses:
  movl %edi, %eax
  .byte 0x8d, 0x7f, 0xff
  testl %eax, %eax
  jz 1f
  call .Lrecurses
  addl $1, %eax
1:
  ret
  .size target_recurses, . - target_recurses

  # A single byte.
  .p2align 4
  .globl target_one_byte
  .type target_one_byte, @function
target_one_byte:
  ret
  .size target_one_byte, . - target_one_byte
  .p2align 4, 0x90

  # Fills every general register, the red zone and the flags, calls the function in its argument,
  # and returns how many of them came back changed.
  .globl registers_changed_by
  .type registers_changed_by, @function
registers_changed_by:
  pushq %rbx
  pushq %rbp
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  subq $24, %rsp
  movq %rdi, (%rsp)
  movq %rsi, 8(%rsp)
  movq $0x1111, %rbx
  movq $0x2222, %rcx
  movq $0x3333, %rdx
  movq $0x4444, %rsi
  movq $0x5555, %rdi
  movq $0x6666, %rbp
  movq $0x7777, %r8
  movq $0x8888, %r9
  movq $0x9999, %r10
  movq $0xaaaa, %r11
  movq $0xbbbb, %r12
  movq $0xcccc, %r13
  movq $0xdddd, %r14
  movq $0xeeee, %r15
  movq $0x7a7a, -16(%rsp)
  movq $0x7b7b, -72(%rsp)
  movq $0x7c7c, -128(%rsp)
  pushq 8(%rsp)
  popfq
  movq $0xffff, %rax
  call *(%rsp)
  pushfq
  xorq $0xffff, %rax
  xorq $0x1111, %rbx
  orq %rbx, %rax
  xorq $0x2222, %rcx
  orq %rcx, %rax
  xorq $0x3333, %rdx
  orq %rdx, %rax
  xorq $0x4444, %rsi
  orq %rsi, %rax
  xorq $0x5555, %rdi
  orq %rdi, %rax
  xorq $0x6666, %rbp
  orq %rbp, %rax
  xorq $0x7777, %r8
  orq %r8, %rax
  xorq $0x8888, %r9
  orq %r9, %rax
  xorq $0x9999, %r10
  orq %r10, %rax
  xorq $0xaaaa, %r11
  orq %r11, %rax
  xorq $0xbbbb, %r12
  orq %r12, %rax
  xorq $0xcccc, %r13
  orq %r13, %rax
  xorq $0xdddd, %r14
  orq %r14, %rax
  xorq $0xeeee, %r15
  orq %r15, %rax
  popq %rcx
  xorq 8(%rsp), %rcx
  andq $0x8d5, %rcx
  orq %rcx, %rax
  movq $0x7b7b, %rcx
  xorq -72(%rsp), %rcx
  orq %rcx, %rax
  movq $0x7c7c, %rcx
  xorq -128(%rsp), %rcx
  orq %rcx, %rax
  addq $24, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbp
  popq %rbx
  ret
  .size registers_changed_by, . - registers_changed_by

  .data
  .globl target_value
  .type target_value, @object
  .size target_value, 4
target_value:
.Lvalue:
  .long 4711
  .globl target_sum
  .type target_sum, @object
  .size target_sum, 4
target_sum:
.Lsum:
  .long 0
  .section .note.GNU-stack, "", @progbits
)");

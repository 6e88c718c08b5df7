#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include <Zydis/Zydis.h>

namespace optrace::machine_code {

/// What is known of a value at one point on the way back from where it is used.
struct Value {
  enum class Kind : std::uint8_t { unknown, constant, general, low_half, high_half, stack };
  Kind kind = Kind::unknown;
  ZydisRegister in = ZYDIS_REGISTER_NONE;  ///< The whole register (rax, xmm0), or the slot's base.
  std::int64_t number = 0;                 ///< The constant, or the slot's offset from its base.

  bool searched() const { return kind != Kind::unknown && kind != Kind::constant; }
  auto operator<=>(const Value&) const = default;
};

/// An instruction with its operands.
struct Decoded {
  ZydisDecodedInstruction instruction{};
  std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> operands{};
  std::uint64_t end = 0;

  const ZydisDecodedOperand& operator[](std::size_t i) const { return operands.at(i); }
};

/// Returns rax for eax and xmm0 for ymm0.
ZydisRegister whole(ZydisRegister part);

bool is_register(const ZydisDecodedOperand& operand);

/// Returns true for memory relative to rsp, or to rbp, which is the frame pointer of functions
/// whose frame has no fixed size.
bool is_stack_slot(const ZydisDecodedOperand& operand);

/// Returns the value in the slot that an operand refers to, or `offset` bytes behind it.
Value stack_slot(const ZydisDecodedOperand& operand, std::int64_t offset = 0);

/// Returns by how much an instruction changes rsp, or nullopt if that is not known.
std::optional<std::int64_t> stack_change(const Decoded& decoded);

/// Returns true for an instruction that writes the register, or a part of it.
bool writes(const Decoded& decoded, ZydisRegister reg);

/// Returns the value in terms of the state before an instruction. `change` is stack_change() of it.
Value before(const Decoded& decoded, const Value& value, std::optional<std::int64_t> change);

}  // namespace optrace::machine_code

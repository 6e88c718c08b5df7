#include "platform/elf/instruction_values.h"

#include <algorithm>

namespace optrace::machine_code {

ZydisRegister whole(ZydisRegister part) {
  const ZydisRegister widest = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, part);
  const ZydisRegisterClass kind = ZydisRegisterGetClass(widest);
  if (kind == ZYDIS_REGCLASS_XMM || kind == ZYDIS_REGCLASS_YMM || kind == ZYDIS_REGCLASS_ZMM)
    return ZydisRegisterEncode(ZYDIS_REGCLASS_XMM, static_cast<ZyanU8>(ZydisRegisterGetId(widest)));
  return widest;
}

bool is_register(const ZydisDecodedOperand& operand) {
  return operand.type == ZYDIS_OPERAND_TYPE_REGISTER;
}

bool is_stack_slot(const ZydisDecodedOperand& operand) {
  return operand.type == ZYDIS_OPERAND_TYPE_MEMORY && operand.mem.index == ZYDIS_REGISTER_NONE &&
         (operand.mem.base == ZYDIS_REGISTER_RSP || operand.mem.base == ZYDIS_REGISTER_RBP);
}

Value stack_slot(const ZydisDecodedOperand& operand, std::int64_t offset) {
  return {Value::Kind::stack, operand.mem.base, operand.mem.disp.value + offset};
}

namespace {

bool is_slot_of(const ZydisDecodedOperand& operand, ZydisRegister base) {
  return is_stack_slot(operand) && operand.mem.base == base;
}

Value constant(std::int64_t number) {
  return {Value::Kind::constant, ZYDIS_REGISTER_NONE, number};
}

bool is_vector(ZydisRegister reg) {
  return ZydisRegisterGetClass(reg) == ZYDIS_REGCLASS_XMM;
}

bool survives_calls(ZydisRegister reg) {
  constexpr auto kPreserved =
      std::to_array({ZYDIS_REGISTER_RBX, ZYDIS_REGISTER_RBP, ZYDIS_REGISTER_R12, ZYDIS_REGISTER_R13,
                     ZYDIS_REGISTER_R14, ZYDIS_REGISTER_R15});
  return std::ranges::find(kPreserved, reg) != kPreserved.end();
}

/// Returns where the value of a read operand of 4 or 8 bytes comes from.
Value source_of(const Decoded& decoded, const ZydisDecodedOperand& operand) {
  if (operand.type == ZYDIS_OPERAND_TYPE_IMMEDIATE) return constant(operand.imm.value.s);
  if (is_register(operand)) {
    const ZydisRegister reg = whole(operand.reg.value);
    return {is_vector(reg) ? Value::Kind::low_half : Value::Kind::general, reg, 0};
  }
  // The instruction lea takes the address of its operand, any other one the contents.
  if (is_stack_slot(operand) && decoded.instruction.mnemonic != ZYDIS_MNEMONIC_LEA)
    return stack_slot(operand);
  if (decoded.instruction.mnemonic == ZYDIS_MNEMONIC_LEA &&
      operand.type == ZYDIS_OPERAND_TYPE_MEMORY && operand.mem.base == ZYDIS_REGISTER_RIP)
    return constant(static_cast<std::int64_t>(decoded.end) + operand.mem.disp.value);
  return {};
}

/// Returns true for an instruction that copies the low part of a vector register or to it.
bool copies_low_part(ZydisMnemonic mnemonic) {
  return mnemonic == ZYDIS_MNEMONIC_MOVQ || mnemonic == ZYDIS_MNEMONIC_VMOVQ ||
         mnemonic == ZYDIS_MNEMONIC_MOVD || mnemonic == ZYDIS_MNEMONIC_VMOVD;
}

/// Returns true for an instruction that copies a whole vector register or to it.
bool copies_vector(ZydisMnemonic mnemonic) {
  constexpr auto kCopies = std::to_array<ZydisMnemonic>(
      {ZYDIS_MNEMONIC_MOVAPS, ZYDIS_MNEMONIC_MOVUPS, ZYDIS_MNEMONIC_MOVDQA, ZYDIS_MNEMONIC_MOVDQU,
       ZYDIS_MNEMONIC_VMOVAPS, ZYDIS_MNEMONIC_VMOVUPS, ZYDIS_MNEMONIC_VMOVDQA,
       ZYDIS_MNEMONIC_VMOVDQU});
  return std::ranges::find(kCopies, mnemonic) != kCopies.end();
}

/// Returns the value of half of a vector register after an instruction that writes the register, in
/// terms of the state before it.
Value vector_source(const Decoded& decoded, bool high, ZydisRegister itself) {
  const auto half = [](ZydisRegister reg, bool upper) {
    return Value{upper ? Value::Kind::high_half : Value::Kind::low_half, whole(reg), 0};
  };
  const ZydisMnemonic mnemonic = decoded.instruction.mnemonic;
  if (copies_low_part(mnemonic)) return high ? constant(0) : source_of(decoded, decoded[1]);
  if (copies_vector(mnemonic)) {
    if (is_register(decoded[1])) return half(decoded[1].reg.value, high);
    return is_stack_slot(decoded[1]) ? stack_slot(decoded[1], high ? 8 : 0) : Value{};
  }
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_PUNPCKLQDQ:
      if (!high) return half(itself, false);
      return is_register(decoded[1]) ? half(decoded[1].reg.value, false) : Value{};
    case ZYDIS_MNEMONIC_VPUNPCKLQDQ:
      if (!is_register(decoded[1]) || !is_register(decoded[2])) return {};
      return half(decoded[high ? 2 : 1].reg.value, false);
    case ZYDIS_MNEMONIC_PINSRQ:
      return high ? source_of(decoded, decoded[1]) : half(itself, false);
    case ZYDIS_MNEMONIC_VPINSRQ:
      return high ? source_of(decoded, decoded[2]) : half(decoded[1].reg.value, false);
    case ZYDIS_MNEMONIC_MOVHPS:
      if (!high) return half(itself, false);
      return is_stack_slot(decoded[1]) ? stack_slot(decoded[1]) : Value{};
    case ZYDIS_MNEMONIC_VMOVHPS:
      if (!high) return half(decoded[1].reg.value, false);
      return is_stack_slot(decoded[2]) ? stack_slot(decoded[2]) : Value{};
    default:
      return {};
  }
}

/// Returns a value that lies on the stack after an instruction, in terms of the state before it.
/// `offset` is relative to what `base` contained before the instruction.
Value stack_source(const Decoded& decoded, ZydisRegister base, std::int64_t offset) {
  const Value unchanged{Value::Kind::stack, base, offset};
  const auto& instruction = decoded.instruction;
  if (instruction.mnemonic == ZYDIS_MNEMONIC_PUSH)
    return base == ZYDIS_REGISTER_RSP && offset == -8 ? source_of(decoded, decoded[0]) : unchanged;
  const ZydisDecodedOperand& to = decoded[0];
  if (instruction.operand_count == 0 || !is_slot_of(to, base) ||
      (to.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) == 0)
    return unchanged;
  const std::int64_t start = to.mem.disp.value;
  const std::int64_t size = to.size / 8;
  if (offset < start || offset >= start + size) return unchanged;
  if (instruction.mnemonic == ZYDIS_MNEMONIC_MOV)
    return offset == start ? source_of(decoded, decoded[1]) : Value{};
  if (!copies_low_part(instruction.mnemonic) && !copies_vector(instruction.mnemonic)) return {};
  if (!is_register(decoded[1]) || (offset != start && offset != start + 8)) return {};
  return {offset == start ? Value::Kind::low_half : Value::Kind::high_half,
          whole(decoded[1].reg.value), 0};
}

/// Returns the value that a general register has after an instruction that writes it.
Value register_source(const Decoded& decoded, ZydisRegister reg) {
  const auto& instruction = decoded.instruction;
  if (!is_register(decoded[0]) || whole(decoded[0].reg.value) != reg) return {};
  if (copies_low_part(instruction.mnemonic)) return source_of(decoded, decoded[1]);
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_MOV:
    case ZYDIS_MNEMONIC_LEA:
      return decoded[0].size >= 32 ? source_of(decoded, decoded[1]) : Value{};
    case ZYDIS_MNEMONIC_XOR:
      return is_register(decoded[1]) && whole(decoded[1].reg.value) == reg ? constant(0) : Value{};
    default:
      return {};
  }
}

}  // namespace

std::optional<std::int64_t> stack_change(const Decoded& decoded) {
  const auto& instruction = decoded.instruction;
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_PUSH:
      return -8;
    case ZYDIS_MNEMONIC_POP:
      return 8;
    case ZYDIS_MNEMONIC_CALL:
      return 0;
    default:
      break;
  }
  bool writes = false;
  for (std::size_t i = 0; i < instruction.operand_count; ++i)
    writes = writes || (is_register(decoded[i]) && decoded[i].reg.value == ZYDIS_REGISTER_RSP &&
                        (decoded[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0);
  if (!writes) return 0;
  if (instruction.mnemonic == ZYDIS_MNEMONIC_LEA && is_slot_of(decoded[1], ZYDIS_REGISTER_RSP))
    return decoded[1].mem.disp.value;
  if (decoded[1].type != ZYDIS_OPERAND_TYPE_IMMEDIATE) return std::nullopt;
  if (instruction.mnemonic == ZYDIS_MNEMONIC_SUB) return -decoded[1].imm.value.s;
  if (instruction.mnemonic == ZYDIS_MNEMONIC_ADD) return decoded[1].imm.value.s;
  return std::nullopt;
}

bool writes(const Decoded& decoded, ZydisRegister reg) {
  for (std::size_t i = 0; i < decoded.instruction.operand_count; ++i)
    if (is_register(decoded[i]) && (decoded[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0 &&
        whole(decoded[i].reg.value) == reg)
      return true;
  return false;
}

Value before(const Decoded& decoded, const Value& value, std::optional<std::int64_t> change) {
  const bool is_call = decoded.instruction.mnemonic == ZYDIS_MNEMONIC_CALL;
  switch (value.kind) {
    case Value::Kind::unknown:
    case Value::Kind::constant:
      return value;
    case Value::Kind::stack:
      if (value.in == ZYDIS_REGISTER_RSP)
        return change ? stack_source(decoded, value.in, value.number + *change) : Value{};
      return is_call || !writes(decoded, value.in) ? stack_source(decoded, value.in, value.number)
                                                   : Value{};
    case Value::Kind::general:
      if (is_call) return survives_calls(value.in) ? value : Value{};
      return writes(decoded, value.in) ? register_source(decoded, value.in) : value;
    case Value::Kind::low_half:
    case Value::Kind::high_half:
      if (is_call) return {};
      return writes(decoded, value.in)
                 ? vector_source(decoded, value.kind == Value::Kind::high_half, value.in)
                 : value;
  }
  return {};
}

}  // namespace optrace::machine_code

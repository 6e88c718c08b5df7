#include "platform/elf/result_use.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include <Zydis/Zydis.h>

namespace optrace {
namespace {

constexpr std::size_t kMaxInstructions = 8;

ZydisRegister largest(ZydisRegister part) {
  return ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, part);
}

/// The general registers that contain the result of a call.
class ResultCopies {
 public:
  bool contain(const ZydisDecodedOperand& operand) const {
    return operand.type == ZYDIS_OPERAND_TYPE_REGISTER &&
           std::ranges::count(registers_, largest(operand.reg.value)) != 0;
  }
  void add(ZydisRegister copy) { registers_.push_back(largest(copy)); }
  void remove(ZydisRegister overwritten) { std::erase(registers_, largest(overwritten)); }

 private:
  std::vector<ZydisRegister> registers_{ZYDIS_REGISTER_RAX};
};

bool leaves(const ZydisDecodedInstruction& instruction) {
  return instruction.meta.branch_type != ZYDIS_BRANCH_TYPE_NONE ||
         instruction.meta.category == ZYDIS_CATEGORY_RET;
}

}  // namespace

bool tests_result(const ModuleSymbols& module, std::uint64_t return_address) {
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  auto code = module.code(return_address, kMaxInstructions * ZYDIS_MAX_INSTRUCTION_LENGTH);
  ResultCopies copies;
  for (std::size_t i = 0; i < kMaxInstructions; ++i) {
    ZydisDecodedInstruction instruction;
    std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> all{};
    if (!ZYAN_SUCCESS(
            ZydisDecoderDecodeFull(&decoder, code.data(), code.size(), &instruction, all.data())) ||
        leaves(instruction))
      return false;
    const std::span operands(all.data(), instruction.operand_count);
    const bool compares =
        instruction.mnemonic == ZYDIS_MNEMONIC_TEST || instruction.mnemonic == ZYDIS_MNEMONIC_CMP;
    const auto is_copy = [&](const ZydisDecodedOperand& operand) {
      return copies.contain(operand);
    };
    if (compares && std::ranges::any_of(operands, is_copy)) return true;
    const bool copied = instruction.mnemonic == ZYDIS_MNEMONIC_MOV && copies.contain(operands[1]);
    for (const ZydisDecodedOperand& operand : operands) {
      if (operand.type != ZYDIS_OPERAND_TYPE_REGISTER ||
          (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) == 0)
        continue;
      if (copied)
        copies.add(operand.reg.value);
      else
        copies.remove(operand.reg.value);
    }
    code = code.subspan(instruction.length);
  }
  return false;
}

}  // namespace optrace

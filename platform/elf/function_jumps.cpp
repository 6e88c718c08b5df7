#include "platform/elf/function_jumps.h"

#include <algorithm>
#include <cstring>

#include <Zydis/Zydis.h>

namespace optrace {
namespace {

class JumpFinder {
 public:
  JumpFinder(const ModuleSymbols& module, const NativeFunction& function)
      : module_(module), function_(function) {}

  FunctionJumps run() {
    pieces_.push_back(function_);
    for (std::size_t next = 0; next < pieces_.size(); ++next) scan(NativeFunction(pieces_[next]));
    const auto tidy = [](auto& list) {
      std::ranges::sort(list);
      const auto repeated = std::ranges::unique(list);
      list.erase(repeated.begin(), repeated.end());
    };
    tidy(result_.tail_calls);
    tidy(result_.named_tail_calls);
    return std::move(result_);
  }

 private:
  void scan(const NativeFunction& piece) {
    ZydisDecoder decoder;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    std::uint64_t at = piece.address;
    auto code = module_.code(piece.address, piece.size);
    while (!code.empty()) {
      ZydisDecodedInstruction instruction;
      if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, nullptr, code.data(), code.size(),
                                                      &instruction))) {
        return;
      }
      const std::uint64_t next = at + instruction.length;
      const bool is_jump = instruction.mnemonic == ZYDIS_MNEMONIC_JMP;
      if (instruction.raw.imm[0].is_relative != 0 && instruction.mnemonic != ZYDIS_MNEMONIC_CALL)
        direct(at, next + static_cast<std::uint64_t>(instruction.raw.imm[0].value.s));
      else if (is_jump && instruction.raw.modrm.mod == 0 && instruction.raw.modrm.rm == 5)
        through_slot(at, next + static_cast<std::uint64_t>(instruction.raw.disp.value));
      else if (is_jump && may_leave(at))
        result_.jumps_indirectly = true;
      at = next;
      code = code.subspan(instruction.length);
    }
  }

  /// Returns false if the function's frame is still on the stack.
  bool may_leave(std::uint64_t at) const {
    return module_.return_address_on_top(at).value_or(true);
  }

  void direct(std::uint64_t at, std::uint64_t target) {
    if (target == function_.address) {
      result_.enters_itself = true;
      return;
    }
    const bool inside = std::ranges::any_of(pieces_, [&](const NativeFunction& piece) {
      return target >= piece.address && target - piece.address < piece.size;
    });
    if (inside) return;
    const auto piece = module_.find_piece(target);
    if (piece && !piece->symbol.empty()) {
      if (module_.is_cold_part(*piece, function_)) {
        pieces_.push_back(*piece);
      } else if (piece->address == target) {
        if (may_leave(at)) result_.tail_calls.push_back(target);
      } else if (const auto slot = slot_of_stub(module_, target)) {
        // `_init` has no size, so that it seems to extend through the PLT that follows it.
        through_slot(at, *slot);
      }
      return;
    }
    if (const auto slot = slot_of_stub(module_, target))
      through_slot(at, *slot);
    else if (piece && piece->address == target && may_leave(at))
      result_.tail_calls.push_back(target);
  }

  void through_slot(std::uint64_t at, std::uint64_t slot) {
    if (!may_leave(at)) return;
    const std::string_view name = module_.dynamic_symbol_of_slot(slot);
    if (name.empty())
      result_.jumps_indirectly = true;
    else
      result_.named_tail_calls.push_back(name);
  }

  const ModuleSymbols& module_;
  const NativeFunction& function_;
  std::vector<NativeFunction> pieces_;
  FunctionJumps result_;
};

}  // namespace

FunctionJumps find_jumps(const ModuleSymbols& module, const NativeFunction& function) {
  return JumpFinder(module, function).run();
}

std::optional<std::uint64_t> slot_of_stub(const ModuleSymbols& module, std::uint64_t address) {
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  auto code = module.code(address, kMaxStubSize);
  for (;;) {
    ZydisDecodedInstruction instruction;
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, nullptr, code.data(), code.size(),
                                                    &instruction))) {
      return std::nullopt;
    }
    address += instruction.length;
    code = code.subspan(instruction.length);
    if (instruction.mnemonic == ZYDIS_MNEMONIC_ENDBR64) continue;
    if (instruction.mnemonic != ZYDIS_MNEMONIC_JMP || instruction.raw.imm[0].is_relative != 0 ||
        instruction.raw.modrm.mod != 0 || instruction.raw.modrm.rm != 5) {
      return std::nullopt;
    }
    return address + static_cast<std::uint64_t>(instruction.raw.disp.value);
  }
}

std::optional<CallTarget> call_target_before(const ModuleSymbols& module,
                                             std::uint64_t return_address) {
  constexpr std::uint64_t kDirectSize = 5;  // E8 and a 4-byte displacement.
  constexpr std::uint64_t kSlotSize = 6;    // FF 15 and a 4-byte displacement.
  if (return_address < kSlotSize) return std::nullopt;
  const auto code = module.code(return_address - kSlotSize, kSlotSize);
  if (code.size() < kSlotSize) return std::nullopt;
  std::int32_t distance = 0;
  std::memcpy(&distance, &code[2], sizeof distance);
  const std::uint64_t there = return_address + static_cast<std::uint64_t>(std::int64_t{distance});
  if (code[kSlotSize - kDirectSize] == std::byte{0xE8}) {
    const auto slot = slot_of_stub(module, there);
    const std::string_view name = slot ? module.dynamic_symbol_of_slot(*slot) : std::string_view();
    return CallTarget{there, name};
  }
  if (code[0] == std::byte{0xFF} && code[1] == std::byte{0x15}) {
    const std::string_view name = module.dynamic_symbol_of_slot(there);
    if (!name.empty()) return CallTarget{0, name};
  }
  return std::nullopt;
}

}  // namespace optrace

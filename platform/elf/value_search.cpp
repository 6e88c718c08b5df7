#include "platform/elf/value_search.h"

namespace optrace::machine_code {

FunctionCode::FunctionCode(const ModuleSymbols& module, const std::vector<NativeFunction>& pieces)
    : module_(module) {
  ZydisDecoderInit(&decoder_, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  for (const NativeFunction& piece : pieces) scan(piece);
  std::ranges::sort(jumps_);
}

bool FunctionCode::starts_at(std::uint64_t address) const {
  return std::ranges::binary_search(starts_, address, {}, &Start::address);
}

std::optional<Decoded> FunctionCode::decode(std::uint64_t at) const {
  const auto code = module_.code(at, ZYDIS_MAX_INSTRUCTION_LENGTH);
  Decoded decoded;
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder_, code.data(), code.size(),
                                           &decoded.instruction, decoded.operands.data())))
    return std::nullopt;
  decoded.end = at + decoded.instruction.length;
  return decoded;
}

void FunctionCode::scan(const NativeFunction& piece) {
  std::uint64_t at = piece.address;
  auto code = module_.code(piece.address, piece.size);
  bool follows = false;
  while (!code.empty()) {
    ZydisDecodedInstruction instruction;
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder_, nullptr, code.data(), code.size(),
                                                    &instruction)))
      return;
    starts_.push_back({at, follows});
    const std::uint64_t next = at + instruction.length;
    if (instruction.raw.imm[0].is_relative != 0 && instruction.mnemonic != ZYDIS_MNEMONIC_CALL)
      jumps_.emplace_back(next + static_cast<std::uint64_t>(instruction.raw.imm[0].value.s), at);
    follows = instruction.mnemonic != ZYDIS_MNEMONIC_JMP &&
              instruction.mnemonic != ZYDIS_MNEMONIC_RET &&
              instruction.mnemonic != ZYDIS_MNEMONIC_UD2;
    at = next;
    code = code.subspan(instruction.length);
  }
}

std::set<Values> ValueSearch::run(std::uint64_t call, const Values& places) {
  found_.clear();
  seen_.clear();
  steps_ = 0;
  follow(call, places);
  return std::move(found_);
}

std::optional<Value> ValueSearch::stack_object(std::uint64_t call, ZydisRegister pointer) const {
  std::uint64_t at = call;
  std::int64_t moved = 0;  // rsp at the call minus rsp after the instruction.
  for (unsigned step = 0; step < kMaxLength; ++step) {
    std::optional<std::uint64_t> previous;
    code_.for_each_before(at, [&](std::uint64_t origin) {
      if (!previous || origin < at) previous = origin;
    });
    if (!previous) return std::nullopt;
    const auto decoded = code_.decode(*previous);
    if (!decoded || decoded->instruction.mnemonic == ZYDIS_MNEMONIC_CALL) return std::nullopt;
    if (writes(*decoded, pointer)) {
      if (decoded->instruction.mnemonic == ZYDIS_MNEMONIC_MOV && is_register((*decoded)[1])) {
        pointer = whole((*decoded)[1].reg.value);
        if (pointer == ZYDIS_REGISTER_RSP) return Value{Value::Kind::stack, pointer, -moved};
      } else if (decoded->instruction.mnemonic == ZYDIS_MNEMONIC_LEA &&
                 is_stack_slot((*decoded)[1])) {
        const bool from_top = (*decoded)[1].mem.base == ZYDIS_REGISTER_RSP;
        return stack_slot((*decoded)[1], from_top ? -moved : 0);
      } else {
        return std::nullopt;
      }
    }
    const auto change = stack_change(*decoded);
    if (!change) return std::nullopt;
    moved += *change;
    at = *previous;
  }
  return std::nullopt;
}

void ValueSearch::follow(std::uint64_t call, const Values& places) {
  std::vector<std::pair<std::uint64_t, Values>> open = {{call, places}};
  while (!open.empty() && found_.size() < kMaxFound) {
    const auto [at, values] = open.back();
    open.pop_back();
    bool continues = false;
    code_.for_each_before(at, [&](std::uint64_t origin) {
      continues = true;
      if (++steps_ > kMaxSteps) return;
      const auto decoded = code_.decode(origin);
      if (!decoded) return;
      const auto change = stack_change(*decoded);
      Values earlier;
      for (std::size_t i = 0; i < kArguments; ++i)
        earlier.at(i) = before(*decoded, values.at(i), change);
      if (earlier[kLineArgument].kind == Value::Kind::unknown) return;
      if (std::ranges::none_of(earlier, &Value::searched))
        found_.insert(earlier);
      else if (seen_.insert({origin, earlier}).second)
        open.emplace_back(origin, earlier);
    });
    // At the function's entry, or where no jump to this place is known, the rest is unknown.
    if (!continues) add_known(values);
  }
}

void ValueSearch::add_known(Values values) {
  for (Value& value : values)
    if (value.searched()) value = {};
  if (values[kLineArgument].kind == Value::Kind::constant) found_.insert(values);
}

}  // namespace optrace::machine_code

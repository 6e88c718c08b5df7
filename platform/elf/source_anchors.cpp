#include "platform/elf/source_anchors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <Zydis/Zydis.h>

#include "platform/elf/near_branches.h"

namespace optrace {
namespace {

/// The way in which a function gets an argument.
struct Argument {
  enum class Kind : std::uint8_t { none, general, stack, pointed_to } kind = Kind::none;
  ZydisRegister in = ZYDIS_REGISTER_NONE;  ///< general: the register; pointed_to: the pointer.
  std::int32_t offset = 0;                 ///< stack: from rsp at the call; pointed_to: in bytes.
};

constexpr Argument in_register(ZydisRegister which) {
  return {Argument::Kind::general, which, 0};
}
constexpr Argument on_stack(std::int32_t offset) {
  return {Argument::Kind::stack, ZYDIS_REGISTER_NONE, offset};
}
constexpr Argument behind(ZydisRegister pointer, std::int32_t offset) {
  return {Argument::Kind::pointed_to, pointer, offset};
}

/// The arguments of a function that takes a place in the source.
struct AnchorCall {
  AnchorKind kind = AnchorKind::check;
  Argument function_name;
  Argument file;
  Argument line;
  Argument message;
};

// c10::SourceLocation: function, file, line. It is passed in memory because it has 24 bytes.
constexpr std::array kLocationOnStack = {on_stack(0), on_stack(8), on_stack(16)};
constexpr std::array kLocationBehindRdx = {
    behind(ZYDIS_REGISTER_RDX, 0), behind(ZYDIS_REGISTER_RDX, 8), behind(ZYDIS_REGISTER_RDX, 16)};

constexpr auto kRdi = in_register(ZYDIS_REGISTER_RDI);
constexpr auto kRsi = in_register(ZYDIS_REGISTER_RSI);
constexpr auto kRdx = in_register(ZYDIS_REGISTER_RDX);
constexpr auto kRcx = in_register(ZYDIS_REGISTER_RCX);
constexpr auto kR8 = in_register(ZYDIS_REGISTER_R8);
constexpr auto kR9 = in_register(ZYDIS_REGISTER_R9);

/// Functions by the start of their mangled names (c10/util/Exception.h, c10/util/Logging.h,
/// c10/cuda/CUDAException.h, torch/library.h). The parameters behind the location differ between
/// versions of PyTorch.
struct NamedCall {
  std::string_view start;
  AnchorCall call;
};
constexpr auto kNamedCalls = std::to_array<NamedCall>({
    {"_ZN3c106detail14torchCheckFailEPKcS2_jS2_", {AnchorKind::check, kRdi, kRsi, kRdx, kRcx}},
    {"_ZN3c106detail14torchCheckFailEPKcS2_jRK", {AnchorKind::check, kRdi, kRsi, kRdx, {}}},
    {"_ZN3c106detail23torchInternalAssertFailEPKcS2_jS2_",
     {AnchorKind::assertion, kRdi, kRsi, kRdx, kRcx}},
    {"_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_",
     {AnchorKind::cuda_check, kRdx, kRsi, kRcx, {}}},
    {"_ZN5torch7LibraryC1ENS0_4KindE", {AnchorKind::registration, {}, kR8, kR9, {}}},
    {"_ZN5torch7LibraryC2ENS0_4KindE", {AnchorKind::registration, {}, kR8, kR9, {}}},
    {"_ZN3c1018ThrowEnforceNotMetEPKciS1_", {AnchorKind::enforcement, {}, kRdi, kRsi, kRdx}},
    {"_ZN3c1024ThrowEnforceFiniteNotMetEPKciS1_", {AnchorKind::enforcement, {}, kRdi, kRsi, kRdx}},
    {"_ZN3c1013MessageLoggerC1EPKcii", {AnchorKind::logging, {}, kRsi, kRdx, {}}},
    {"_ZN3c1013MessageLoggerC2EPKcii", {AnchorKind::logging, {}, kRsi, kRdx, {}}},
});

/// Returns how the function with this mangled name gets a place in the source, if it does.
std::optional<AnchorCall> anchor_call(std::string_view symbol) {
  for (const NamedCall& named : kNamedCalls)
    if (symbol.starts_with(named.start)) return named.call;
  // Constructors in c10 that take a c10::SourceLocation, by value or by reference.
  if (!symbol.starts_with("_ZN3c10") || (symbol.find("C1E") == std::string_view::npos &&
                                         symbol.find("C2E") == std::string_view::npos))
    return std::nullopt;
  const AnchorKind kind = symbol.starts_with("_ZN3c107WarningC")         ? AnchorKind::warning
                          : symbol.starts_with("_ZN3c1013MessageLogger") ? AnchorKind::logging
                                                                         : AnchorKind::error;
  const auto& at = symbol.find("RKNS_14SourceLocationE") != std::string_view::npos
                       ? kLocationBehindRdx
                       : kLocationOnStack;
  if (symbol.find("NS_14SourceLocationE") == std::string_view::npos) return std::nullopt;
  return AnchorCall{kind, at[0], at[1], at[2], {}};
}

constexpr std::size_t kArguments = 4;  // Function name, file, line, message.
constexpr std::size_t kLineArgument = 2;

/// What is known of an argument at one point on the way back from a call.
struct Value {
  enum class Kind : std::uint8_t { unknown, constant, general, low_half, high_half, stack };
  Kind kind = Kind::unknown;
  ZydisRegister in = ZYDIS_REGISTER_NONE;  ///< The whole register (rax, xmm0), or the slot's base.
  std::int64_t number = 0;                 ///< The constant, or the slot's offset from its base.

  bool searched() const { return kind != Kind::unknown && kind != Kind::constant; }
  auto operator<=>(const Value&) const = default;
};
using Values = std::array<Value, kArguments>;

Value constant(std::int64_t number) {
  return {Value::Kind::constant, ZYDIS_REGISTER_NONE, number};
}

/// Returns rax for eax and xmm0 for ymm0.
ZydisRegister whole(ZydisRegister part) {
  const ZydisRegister widest = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, part);
  const ZydisRegisterClass kind = ZydisRegisterGetClass(widest);
  if (kind == ZYDIS_REGCLASS_XMM || kind == ZYDIS_REGCLASS_YMM || kind == ZYDIS_REGCLASS_ZMM)
    return ZydisRegisterEncode(ZYDIS_REGCLASS_XMM, static_cast<ZyanU8>(ZydisRegisterGetId(widest)));
  return widest;
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

/// An instruction with its operands.
struct Decoded {
  ZydisDecodedInstruction instruction{};
  std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> operands{};
  std::uint64_t end = 0;

  const ZydisDecodedOperand& operator[](std::size_t i) const { return operands.at(i); }
};

bool is_register(const ZydisDecodedOperand& operand) {
  return operand.type == ZYDIS_OPERAND_TYPE_REGISTER;
}
/// Returns true for memory relative to rsp, or to rbp, which is the frame pointer of functions
/// whose frame has no fixed size.
bool is_stack_slot(const ZydisDecodedOperand& operand) {
  return operand.type == ZYDIS_OPERAND_TYPE_MEMORY && operand.mem.index == ZYDIS_REGISTER_NONE &&
         (operand.mem.base == ZYDIS_REGISTER_RSP || operand.mem.base == ZYDIS_REGISTER_RBP);
}
bool is_stack_slot(const ZydisDecodedOperand& operand, ZydisRegister base) {
  return is_stack_slot(operand) && operand.mem.base == base;
}
Value stack_slot(const ZydisDecodedOperand& operand, std::int64_t offset = 0) {
  return {Value::Kind::stack, operand.mem.base, operand.mem.disp.value + offset};
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

/// Returns by how much an instruction changes rsp, or nullopt if that is not known.
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
  if (instruction.mnemonic == ZYDIS_MNEMONIC_LEA && is_stack_slot(decoded[1], ZYDIS_REGISTER_RSP))
    return decoded[1].mem.disp.value;
  if (decoded[1].type != ZYDIS_OPERAND_TYPE_IMMEDIATE) return std::nullopt;
  if (instruction.mnemonic == ZYDIS_MNEMONIC_SUB) return -decoded[1].imm.value.s;
  if (instruction.mnemonic == ZYDIS_MNEMONIC_ADD) return decoded[1].imm.value.s;
  return std::nullopt;
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
  if (instruction.operand_count == 0 || !is_stack_slot(to, base) ||
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

bool writes(const Decoded& decoded, ZydisRegister reg) {
  for (std::size_t i = 0; i < decoded.instruction.operand_count; ++i)
    if (is_register(decoded[i]) && (decoded[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0 &&
        whole(decoded[i].reg.value) == reg)
      return true;
  return false;
}

/// Returns the value in terms of the state before an instruction.
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

/// The instructions of a function and of its cold parts.
class FunctionCode {
 public:
  FunctionCode(const ModuleSymbols& module, const std::vector<NativeFunction>& pieces)
      : module_(module) {
    ZydisDecoderInit(&decoder_, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (const NativeFunction& piece : pieces) scan(piece);
    std::ranges::sort(jumps_);
  }

  /// Calls `visit(address)` for each instruction that may run directly before the one at `at`.
  template <typename Visit>
  void for_each_before(std::uint64_t at, Visit visit) const {
    const auto here = std::ranges::lower_bound(starts_, at, {}, &Start::address);
    if (here != starts_.end() && here->address == at && here->follows)
      visit(std::prev(here)->address);
    for (auto jump = std::ranges::lower_bound(jumps_, std::pair(at, std::uint64_t{0}));
         jump != jumps_.end() && jump->first == at; ++jump)
      visit(jump->second);
  }

  bool starts_at(std::uint64_t address) const {
    return std::ranges::binary_search(starts_, address, {}, &Start::address);
  }

  std::optional<Decoded> decode(std::uint64_t at) const {
    const auto code = module_.code(at, ZYDIS_MAX_INSTRUCTION_LENGTH);
    Decoded decoded;
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder_, code.data(), code.size(),
                                             &decoded.instruction, decoded.operands.data())))
      return std::nullopt;
    decoded.end = at + decoded.instruction.length;
    return decoded;
  }

 private:
  struct Start {
    std::uint64_t address = 0;
    bool follows = false;  ///< The instruction before it may continue here.
  };

  void scan(const NativeFunction& piece) {
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

  const ModuleSymbols& module_;
  ZydisDecoder decoder_{};
  std::vector<Start> starts_;  // The pieces are passed in ascending order.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> jumps_;  // Target, origin; sorted.
};

/// Finds the constants that reach a call, on all ways to it.
class ValueSearch {
 public:
  explicit ValueSearch(const FunctionCode& code) : code_(code) {}

  /// Returns the sets of values with which the call at `call` is reached, where `wanted` is not
  /// unknown.
  std::set<Values> run(std::uint64_t call, const Values& wanted) {
    found_.clear();
    seen_.clear();
    steps_ = 0;
    follow(call, wanted);
    return std::move(found_);
  }

  /// Returns the slot with the start of the object that `pointer` points to at a call, if it is on
  /// the stack.
  std::optional<Value> stack_object(std::uint64_t call, ZydisRegister pointer) const {
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

 private:
  static constexpr unsigned kMaxLength = 64;
  static constexpr unsigned kMaxSteps = 4000;
  static constexpr std::size_t kMaxFound = 64;

  void follow(std::uint64_t call, const Values& wanted) {
    std::vector<std::pair<std::uint64_t, Values>> open = {{call, wanted}};
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
        if (std::ranges::none_of(earlier, &Value::searched)) {
          found_.insert(earlier);
        } else if (seen_.insert({origin, earlier}).second) {
          open.emplace_back(origin, earlier);
        }
      });
      // At the function's entry, or where no jump to this place is known, the rest is unknown.
      if (!continues) add_known(values);
    }
  }

  void add_known(Values values) {
    for (Value& value : values)
      if (value.searched()) value = {};
    if (values[kLineArgument].kind == Value::Kind::constant) found_.insert(values);
  }

  const FunctionCode& code_;
  std::set<Values> found_;
  std::set<std::pair<std::uint64_t, Values>> seen_;
  unsigned steps_ = 0;
};

/// Returns the start of the slot that an instruction `FF 25` or `FF 15` refers to.
std::uint64_t slot_at(std::uint64_t address, std::span<const std::byte> code, std::size_t opcode) {
  constexpr std::size_t kLength = 6;
  std::int32_t distance = 0;
  std::memcpy(&distance, &code[opcode + 2], sizeof distance);
  return address + opcode + kLength + static_cast<std::uint64_t>(std::int64_t{distance});
}

class AnchorFinder {
 public:
  explicit AnchorFinder(const ModuleSymbols& module) : module_(module) {}

  std::vector<SourceAnchor> run() {
    find_targets();
    find_calls();
    std::map<std::uint64_t, std::vector<Site>> by_function;
    for (const Site& site : sites_) {
      const auto function = module_.find(site.call);
      if (function) by_function[function->address].push_back(site);
    }
    add_cold_parts(by_function);
    for (const auto& [address, sites] : by_function) resolve(address, sites);
    std::ranges::sort(found_, {}, [](const SourceAnchor& anchor) {
      return std::tuple(anchor.call, anchor.line, anchor.file);
    });
    return std::move(found_);
  }

 private:
  struct Site {
    std::uint64_t call = 0;
    const AnchorCall* how = nullptr;
  };

  /// Finds the slots and the functions of this module that calls of anchors go to, and the entries
  /// of the procedure linkage table that jump through the slots.
  void find_targets() {
    module_.for_each_slot([&](std::uint64_t slot, std::string_view symbol) {
      if (const auto call = anchor_call(symbol)) slots_.emplace(slot, *call);
    });
    module_.for_each_name([&](std::uint64_t address, std::string_view symbol) {
      if (const auto call = anchor_call(symbol)) targets_.emplace(address, *call);
    });
    for (const auto& [address, code] : module_.executable_segments()) {
      for (std::size_t at = 0; at + 6 <= code.size(); ++at) {
        const void* const hit = std::memchr(&code[at], 0xFF, code.size() - 5 - at);
        if (hit == nullptr) break;
        at = static_cast<std::size_t>(static_cast<const std::byte*>(hit) - code.data());
        const auto next = std::to_integer<unsigned>(code[at + 1]);
        if (next != 0x25 && next != 0x15) continue;
        const auto slot = slots_.find(slot_at(address, code, at));
        if (slot == slots_.end()) continue;
        if (next == 0x15) {
          sites_.push_back({address + at, &slot->second});
          continue;
        }
        // An entry of the table may start with endbr64 and a bnd prefix.
        const std::uint64_t entry = address + at;
        for (const std::uint64_t lead : {0U, 1U, 4U, 5U})
          targets_.emplace(entry - lead, slot->second);
      }
    }
  }

  void find_calls() {
    for (const auto& [address, code] : module_.executable_segments()) {
      for_each_near_branch(code, [&, start = address, bytes = code](std::size_t opcode) {
        if (bytes.size() - opcode < 5) return;
        const auto byte = std::to_integer<unsigned>(bytes[opcode]);
        if (byte != 0xE8 && byte != 0xE9) return;
        std::int32_t distance = 0;
        std::memcpy(&distance, &bytes[opcode + 1], sizeof distance);
        const auto target =
            targets_.find(start + opcode + 5 + static_cast<std::uint64_t>(std::int64_t{distance}));
        if (target != targets_.end()) sites_.push_back({start + opcode, &target->second});
      });
    }
  }

  /// Adds the cold parts of functions with anchors.
  void add_cold_parts(const std::map<std::uint64_t, std::vector<Site>>& by_function) {
    module_.for_each_piece([&](const NativeFunction& piece) {
      if (piece.symbol.find(".cold") == std::string_view::npos) return;
      const auto parent = module_.find(piece.address);
      if (parent && parent->address != piece.address && by_function.contains(parent->address))
        cold_parts_[parent->address].push_back(piece);
    });
  }

  void resolve(std::uint64_t address, const std::vector<Site>& sites) {
    std::vector<NativeFunction> pieces;
    if (const auto piece = module_.find_piece(address)) pieces.push_back(*piece);
    if (const auto cold = cold_parts_.find(address); cold != cold_parts_.end())
      pieces.insert(pieces.end(), cold->second.begin(), cold->second.end());
    std::ranges::sort(pieces, {}, &NativeFunction::address);
    const FunctionCode code(module_, pieces);
    ValueSearch search(code);
    const std::size_t first = found_.size();
    for (const Site& site : sites)
      if (code.starts_at(site.call)) resolve(address, site, search);
    fill_in_files(first);
  }

  void resolve(std::uint64_t function, const Site& site, ValueSearch& search) {
    const std::array<Argument, kArguments> arguments = {site.how->function_name, site.how->file,
                                                        site.how->line, site.how->message};
    Values wanted;
    for (std::size_t i = 0; i < kArguments; ++i) {
      const Argument& argument = arguments.at(i);
      if (argument.kind == Argument::Kind::general)
        wanted.at(i) = {Value::Kind::general, argument.in, 0};
      else if (argument.kind == Argument::Kind::stack)
        wanted.at(i) = {Value::Kind::stack, ZYDIS_REGISTER_RSP, argument.offset};
      else if (argument.kind == Argument::Kind::pointed_to)
        if (const auto object = search.stack_object(site.call, argument.in))
          wanted.at(i) = {Value::Kind::stack, object->in, object->number + argument.offset};
    }
    if (!wanted[kLineArgument].searched()) return;
    for (const Values& values : search.run(site.call, wanted)) add(function, site, values);
  }

  void add(std::uint64_t function, const Site& site, const Values& values) {
    const auto text = [&](const Value& value) {
      return value.kind == Value::Kind::constant
                 ? module_.text_at(static_cast<std::uint64_t>(value.number))
                 : std::string_view();
    };
    constexpr std::int64_t kMaxLine = 200'000;
    const std::int64_t line = values[kLineArgument].number;
    if (line <= 0 || line > kMaxLine) return;
    found_.push_back({.call = site.call,
                      .function = function,
                      .kind = site.how->kind,
                      .function_name = text(values[0]),
                      .file = text(values[1]),
                      .line = static_cast<std::uint32_t>(line),
                      .message = text(values[3])});
  }

  /// Gives the anchors of one function, from the one at `first` on, that lack a file the file of
  /// the others if that is only one. Those that still have none are left out.
  void fill_in_files(std::size_t first) {
    std::set<std::string_view> files;
    for (std::size_t i = first; i < found_.size(); ++i)
      if (!found_[i].file.empty()) files.insert(found_[i].file);
    if (files.size() == 1)
      for (std::size_t i = first; i < found_.size(); ++i)
        if (found_[i].file.empty()) found_[i].file = *files.begin();
    const auto start = found_.begin() + static_cast<std::ptrdiff_t>(first);
    found_.erase(std::remove_if(start, found_.end(),
                                [](const SourceAnchor& anchor) { return anchor.file.empty(); }),
                 found_.end());
  }

  const ModuleSymbols& module_;
  std::unordered_map<std::uint64_t, AnchorCall> slots_;
  std::unordered_map<std::uint64_t, AnchorCall> targets_;
  std::vector<Site> sites_;
  std::unordered_map<std::uint64_t, std::vector<NativeFunction>> cold_parts_;
  std::vector<SourceAnchor> found_;
};

}  // namespace

std::vector<SourceAnchor> find_anchors(const ModuleSymbols& module) {
  return AnchorFinder(module).run();
}

std::string_view path_in_tree(std::string_view anchor_file) {
  constexpr auto kTops = std::to_array<std::string_view>(
      {"build/aten/src/", "aten/src/", "c10/", "caffe2/", "torch/csrc/", "torch/"});
  std::string_view best;
  for (const std::string_view top : kTops) {
    for (std::size_t at = anchor_file.find(top); at != std::string_view::npos;
         at = anchor_file.find(top, at + 1)) {
      if (at != 0 && anchor_file[at - 1] != '/') continue;
      if (anchor_file.size() - at > best.size()) best = anchor_file.substr(at);
      break;
    }
  }
  const std::string_view lead = anchor_file.substr(0, anchor_file.size() - best.size());
  return lead.find("third_party/") == std::string_view::npos ? best : std::string_view();
}

}  // namespace optrace

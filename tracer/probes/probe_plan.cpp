#include "tracer/probes/probe_plan.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <Zydis/Zydis.h>
#include <fmt/core.h>
#include <xxhash.h>

#include "platform/error.h"
#include "tracer/probes/probe_selection.h"

namespace optrace {
namespace {

using plan::Fixup;
using plan::FixupKind;
using plan::Patch;
using plan::Probe;

const ZydisDecoder& decoder() {
  static const ZydisDecoder value = [] {
    ZydisDecoder made;
    ZydisDecoderInit(&made, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    return made;
  }();
  return value;
}

std::optional<ZydisDecodedInstruction> decode(std::span<const std::byte> code) {
  ZydisDecodedInstruction instruction;
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder(), nullptr, code.data(), code.size(),
                                                  &instruction))) {
    return std::nullopt;
  }
  return instruction;
}

/// Returns true if execution does not continue after the instruction.
bool ends_sequence(const ZydisDecodedInstruction& instruction) {
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_JMP:
    case ZYDIS_MNEMONIC_RET:
    case ZYDIS_MNEMONIC_UD2:
    case ZYDIS_MNEMONIC_HLT:
      return true;
    default:
      return false;
  }
}

bool is_rip_relative(const ZydisDecodedInstruction& instruction) {
  return (instruction.attributes & ZYDIS_ATTRIB_HAS_MODRM) != 0 && instruction.raw.modrm.mod == 0 &&
         instruction.raw.modrm.rm == 5;
}

/// Returns true if `code` is padding between functions: nops in their many forms, int3, zeros.
bool is_padding(std::span<const std::byte> code) {
  while (!code.empty()) {
    const auto byte = std::to_integer<unsigned char>(code[0]);
    if (byte == 0x00 || byte == 0xCC) {
      code = code.subspan(1);
      continue;
    }
    const auto instruction = decode(code);
    // A nop that is longer than `code` can't be decoded; its first byte identifies it.
    if (!instruction) return byte == 0x66 || byte == 0x0F || byte == 0x2E;
    if (instruction->mnemonic != ZYDIS_MNEMONIC_NOP &&
        (instruction->mnemonic != ZYDIS_MNEMONIC_XCHG || byte != 0x66)) {
      return false;
    }
    code = code.subspan(instruction->length);
  }
  return true;
}

void append_zeros(std::string& code, std::size_t count) {
  code.append(count, '\0');
}

/// Returns true if the operand is, or is addressed through, a register that `through_r11` changes.
bool uses_changed_register(const ZydisDecodedOperand& operand) {
  const auto is_changed = [](ZydisRegister part) {
    const ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, part);
    return whole == ZYDIS_REGISTER_R11 || whole == ZYDIS_REGISTER_RSP ||
           whole == ZYDIS_REGISTER_RIP;
  };
  switch (operand.type) {
    case ZYDIS_OPERAND_TYPE_REGISTER:
      return is_changed(operand.reg.value);
    case ZYDIS_OPERAND_TYPE_MEMORY:
      return operand.mem.base != ZYDIS_REGISTER_RIP &&
             (is_changed(operand.mem.base) || is_changed(operand.mem.index));
    default:
      return false;
  }
}

/// Returns the instruction, which has a RIP-relative operand, with an operand [r11] in its place.
/// Returns nothing if it needs r11 or the stack for something else.
std::optional<std::string> through_r11(std::span<const std::byte> code) {
  ZydisDecodedInstruction instruction;
  std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> operands;
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder(), code.data(), code.size(), &instruction,
                                           operands.data())) ||
      std::any_of(operands.begin(), operands.begin() + instruction.operand_count,
                  uses_changed_register))
    return std::nullopt;
  ZydisEncoderRequest request;
  if (!ZYAN_SUCCESS(ZydisEncoderDecodedInstructionToEncoderRequest(
          &instruction, operands.data(), instruction.operand_count_visible, &request)))
    return std::nullopt;
  for (ZydisEncoderOperand& operand : request.operands) {
    if (operand.type != ZYDIS_OPERAND_TYPE_MEMORY || operand.mem.base != ZYDIS_REGISTER_RIP)
      continue;
    operand.mem.base = ZYDIS_REGISTER_R11;
    operand.mem.displacement = 0;
  }
  std::array<char, ZYDIS_MAX_INSTRUCTION_LENGTH> encoded;
  ZyanUSize size = encoded.size();
  if (!ZYAN_SUCCESS(ZydisEncoderEncodeInstruction(&request, encoded.data(), &size)))
    return std::nullopt;
  return std::string(encoded.data(), size);
}

/// Returns the instruction `mov REGISTER, 0` with eight bytes for the number, which come last.
std::string move_number(ZydisRegister to) {
  constexpr unsigned kRegisters = 8;
  const auto number = static_cast<unsigned char>(ZydisRegisterGetId(to));
  std::string code{number < kRegisters ? '\x48' : '\x49',
                   static_cast<char>(0xB8U + number % kRegisters)};
  append_zeros(code, sizeof(std::uint64_t));
  return code;
}

}  // namespace

// jmp [rip], followed by the address.
constexpr std::string_view kJump("\xFF\x25\0\0\0\0\0\0\0\0\0\0\0\0", 14);

/// The moved instructions of one probe under construction.
struct ProbePlanner::Slot {
  std::uint64_t entry = 0;
  std::string code;
  std::vector<Fixup> fixups;
  std::uint64_t displaced = 0;
  bool ended = false;

  /// Appends a jump to `target`, which the agent replaces if that is out of its reach.
  void jump(std::uint64_t target) {
    code += '\xE9';
    fix(code.size(), target, FixupKind::relative32, 0);
    append_zeros(code, 4);
  }

  /// Appends an instruction that ends with the address of `target`.
  void with_address(std::string_view instruction, std::uint64_t target) {
    code += instruction;
    fix(code.size() - sizeof(std::uint64_t), target, FixupKind::absolute64, 0);
  }

  void fix(std::size_t offset, std::uint64_t target, FixupKind kind, std::uint8_t addend) {
    fixups.push_back({target, static_cast<std::uint16_t>(offset), kind, addend, 0});
  }

  /// Appends a call. It pushes the return address of the original call, so that the callee returns
  /// to the function's own code, where an unwinder finds it, and can't notice the difference.
  void call(std::uint64_t return_address, std::string_view how, std::optional<Fixup> target) {
    code += std::string_view("\xFF\x35", 2);  // push qword [rip + size of the jump]
    code += static_cast<char>(how.size());
    append_zeros(code, 3);
    if (target) {
      target->offset += static_cast<std::uint16_t>(code.size());
      fixups.push_back(*target);
    }
    code += how;
    fix(code.size(), return_address, FixupKind::absolute64, 0);
    append_zeros(code, 8);
    ended = true;
  }

  bool move(const ZydisDecodedInstruction& instruction, std::span<const std::byte> bytes);
  bool move_relative_branch(const ZydisDecodedInstruction& instruction);
  Fixup displacement(const ZydisDecodedInstruction& instruction, std::size_t offset) const;
  void move_rip_relative(const ZydisDecodedInstruction& instruction,
                         std::span<const std::byte> bytes);
  bool move_indirect_call(const ZydisDecodedInstruction& instruction, std::string text);
};

bool ProbePlanner::Slot::move_relative_branch(const ZydisDecodedInstruction& instruction) {
  const std::uint64_t next = entry + displaced + instruction.length;
  const std::uint64_t target = next + static_cast<std::uint64_t>(instruction.raw.imm[0].value.s);
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_JMP:
      jump(target);
      ended = true;
      return true;
    case ZYDIS_MNEMONIC_CALL:
      call(next, kJump, Fixup{target, kJump.size() - 8, FixupKind::absolute64, 0, 0});
      return true;
    case ZYDIS_MNEMONIC_LOOP:
    case ZYDIS_MNEMONIC_LOOPE:
    case ZYDIS_MNEMONIC_LOOPNE:
    case ZYDIS_MNEMONIC_JECXZ:
    case ZYDIS_MNEMONIC_JRCXZ:
      // These have no near form: if taken, they step over the short jump that skips the near one.
      if (instruction.address_width == 32) code += '\x67';
      code += static_cast<char>(instruction.opcode);
      code += std::string_view("\x02\xEB\x0E", 3);
      with_address(kJump, target);
      return true;
    default:
      break;
  }
  const bool conditional =
      instruction.meta.category == ZYDIS_CATEGORY_COND_BR &&
      (instruction.opcode & 0xF0) == (instruction.opcode_map == ZYDIS_OPCODE_MAP_0F ? 0x80 : 0x70);
  if (!conditional) return false;  // xbegin and any later instructions
  // The opposite condition skips a jump.
  code += static_cast<char>(0x70U | ((instruction.opcode & 0x0FU) ^ 1U));
  code += static_cast<char>(kJump.size());
  with_address(kJump, target);
  return true;
}

bool ProbePlanner::Slot::move_indirect_call(const ZydisDecodedInstruction& instruction,
                                            std::string text) {
  constexpr unsigned kNearCall = 2;
  constexpr unsigned kStackPointer = 4;
  const bool through_stack_pointer =
      instruction.raw.modrm.mod != 3 && instruction.raw.modrm.rm == 4 &&
      instruction.raw.sib.base == kStackPointer && instruction.raw.rex.B == 0;
  const bool stack_pointer_itself =
      instruction.raw.modrm.mod == 3 && instruction.raw.modrm.rm == 4 && instruction.raw.rex.B == 0;
  if (instruction.raw.modrm.reg != kNearCall || through_stack_pointer || stack_pointer_itself)
    return false;
  // Changes `call` to `jmp`: /2 to /4 in the ModRM byte.
  char& modrm = text[instruction.raw.modrm.offset];
  modrm = static_cast<char>((static_cast<unsigned char>(modrm) & ~0x38U) | 4U << 3);
  const std::uint64_t next = entry + displaced + instruction.length;
  std::optional<Fixup> slot;
  if (is_rip_relative(instruction)) slot = displacement(instruction, 0);
  call(next, text, slot);
  return true;
}

/// Returns the fixup of a RIP-relative operand of an instruction that is moved to this offset.
Fixup ProbePlanner::Slot::displacement(const ZydisDecodedInstruction& instruction,
                                       std::size_t offset) const {
  const std::size_t within = instruction.raw.disp.offset;
  const std::uint64_t next = entry + displaced + instruction.length;
  return {next + static_cast<std::uint64_t>(instruction.raw.disp.value),
          static_cast<std::uint16_t>(offset + within), FixupKind::relative32,
          static_cast<std::uint8_t>(instruction.length - within - 4), 0};
}

/// Appends an instruction with a RIP-relative operand. The memory for slots can be more than 2 GB
/// away from the operand, which nearly all instructions allow: an address can be moved into a
/// register. The register is r11, saved below the red zone.
void ProbePlanner::Slot::move_rip_relative(const ZydisDecodedInstruction& instruction,
                                           std::span<const std::byte> bytes) {
  const Fixup operand = displacement(instruction, code.size());
  const auto own = bytes.first(instruction.length);
  if (instruction.mnemonic == ZYDIS_MNEMONIC_LEA && instruction.operand_width == 64) {
    const unsigned reg = instruction.raw.modrm.reg + 8U * instruction.raw.rex.R;
    with_address(move_number(ZydisRegisterEncode(ZYDIS_REGCLASS_GPR64, static_cast<ZyanU8>(reg))),
                 operand.target);
  } else if (const auto text = through_r11(own)) {
    code += std::string_view("\x48\x8D\x64\x24\x80", 5);  // lea rsp, [rsp - 128]
    code += std::string_view("\x41\x53", 2);              // push r11
    with_address(move_number(ZYDIS_REGISTER_R11), operand.target);
    code += *text;
    code += std::string_view("\x41\x5B", 2);                    // pop r11
    code += std::string_view("\x48\x8D\xA4\x24\x80\0\0\0", 8);  // lea rsp, [rsp + 128]
  } else {
    fixups.push_back(operand);
    code.append(reinterpret_cast<const char*>(own.data()), own.size());
  }
}

/// Appends one instruction in a form that has the same effect at another address.
bool ProbePlanner::Slot::move(const ZydisDecodedInstruction& instruction,
                              std::span<const std::byte> bytes) {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), instruction.length);
  bool moved = true;
  if (instruction.raw.imm[0].is_relative != 0) {
    moved = move_relative_branch(instruction);
  } else if (instruction.mnemonic == ZYDIS_MNEMONIC_CALL) {
    moved = move_indirect_call(instruction, text);
  } else {
    if (is_rip_relative(instruction))
      move_rip_relative(instruction, bytes);
    else
      code += text;
    ended = ends_sequence(instruction);
  }
  displaced += instruction.length;
  return moved;
}

ProbePlanner::ProbePlanner(const ModuleSymbols& module, const BranchTargets& branch_targets)
    : module_(module), branch_targets_(branch_targets) {}

bool ProbePlanner::plan_jump(Slot& slot, std::span<const std::byte> code,
                             std::uint64_t size) const {
  if (code.size() < kJumpSize) return false;
  while (slot.displaced < kJumpSize && !slot.ended) {
    const auto rest = code.subspan(slot.displaced);
    const auto instruction = decode(rest);
    if (!instruction || !slot.move(*instruction, rest)) return false;
    const bool returns_into_patch =
        instruction->mnemonic == ZYDIS_MNEMONIC_CALL && slot.displaced < kJumpSize;
    if (returns_into_patch || (slot.displaced > size && !slot.ended)) return false;
  }
  const std::uint64_t own = std::max(slot.displaced, size);
  if (own < kJumpSize && !is_padding(code.subspan(own, kJumpSize - own))) return false;
  slot.displaced = std::max(slot.displaced, kJumpSize);
  return !branch_targets_.any_in(module_, slot.entry);
}

bool ProbePlanner::plan_trap(Slot& slot, std::span<const std::byte> code) const {
  const auto instruction = decode(code);
  return instruction && slot.move(*instruction, code);
}

bool ProbePlanner::add(std::uint64_t address) {
  if (added_.contains(address)) return true;
  constexpr std::uint64_t kMaxPatchLength = kJumpSize - 1 + ZYDIS_MAX_INSTRUCTION_LENGTH;
  const auto function = module_.find_piece(address);
  if (!function || function->address != address || function->resolver) return false;
  const auto next = module_.next_start(address);
  const std::uint64_t room = next ? std::min(*next - address, kMaxPatchLength) : kMaxPatchLength;
  const auto code = module_.code(address, room);
  if (code.empty()) return false;

  Slot slot{.entry = address, .code = {}, .fixups = {}};
  auto patch = Patch::jump;
  if (!plan_jump(slot, code, function->size == 0 ? room : function->size)) {
    slot = {.entry = address, .code = {}, .fixups = {}};
    patch = Patch::trap_only;
    if (!plan_trap(slot, code)) return false;
  }
  add_probe(slot, code, patch,
            has_telling_arguments(function->symbol) ? plan::ProbeKind::entry_with_arguments
                                                    : plan::ProbeKind::entry);
  return true;
}

void ProbePlanner::add_return(const ReturnSite& site) {
  if (added_.contains(site.address)) return;
  constexpr std::uint64_t kMaxLength = kJumpSize - 1 + ZYDIS_MAX_INSTRUCTION_LENGTH;
  const auto next = module_.next_start(site.address);
  const std::uint64_t room = next ? std::min(*next - site.address, kMaxLength) : kMaxLength;
  const auto code = module_.code(site.address, room);
  Slot slot{.entry = site.address, .code = {}, .fixups = {}};
  auto patch = Patch::jump;
  if (!site.room_for_jump || !plan_jump(slot, code, room)) {
    slot = {.entry = site.address, .code = {}, .fixups = {}};
    patch = Patch::trap_only;
    if (!plan_trap(slot, code)) return;
  }
  add_probe(slot, code, patch,
            site.result.is_pointer ? plan::ProbeKind::returned_pointer
                                   : plan::return_kind(site.result.bytes));
}

void ProbePlanner::add_probe(Slot& slot, std::span<const std::byte> code, Patch patch,
                             plan::ProbeKind kind) {
  if (!slot.ended) slot.jump(slot.entry + slot.displaced);

  Probe probe{};
  probe.address = slot.entry;
  probe.code_offset = static_cast<std::uint32_t>(code_.size());
  probe.first_fixup = static_cast<std::uint32_t>(fixups_.size());
  probe.code_size = static_cast<std::uint16_t>(slot.code.size());
  probe.fixup_count = static_cast<std::uint16_t>(slot.fixups.size());
  probe.displaced = static_cast<std::uint8_t>(slot.displaced);
  probe.patch = patch;
  probe.kind = kind;
  probe.original_size =
      static_cast<std::uint8_t>(std::min<std::size_t>(code.size(), sizeof probe.original));
  std::memcpy(probe.original, code.data(), probe.original_size);
  probes_.push_back(probe);
  added_.insert(slot.entry);
  fixups_.insert(fixups_.end(), slot.fixups.begin(), slot.fixups.end());
  code_ += slot.code;
}

std::string ProbePlanner::bytes(const std::filesystem::path& module_path) const {
  plan::Header header{};
  std::memcpy(header.magic, plan::kMagic, sizeof header.magic);
  header.version = plan::kVersion;
  const std::string& build_id = module_.build_id();
  header.build_id_size = static_cast<std::uint32_t>(build_id.size() / 2);
  for (std::size_t i = 0; i < header.build_id_size; ++i) {
    header.build_id[i] =
        static_cast<std::uint8_t>(std::stoul(build_id.substr(2 * i, 2), nullptr, 16));
  }
  header.probe_count = static_cast<std::uint32_t>(probes_.size());
  header.fixup_count = static_cast<std::uint32_t>(fixups_.size());
  header.code_size = static_cast<std::uint32_t>(code_.size());
  header.fork_lock = fork_lock_;
  for (std::size_t i = 0; i < std::min(evaluation_loop_.size(), std::size(header.evaluation_loop));
       ++i)
    header.evaluation_loop[i] = evaluation_loop_[i];
  const std::string path = module_path.string();
  header.path_size = static_cast<std::uint32_t>(path.size());

  std::string content(sizeof header, '\0');
  content.append(reinterpret_cast<const char*>(probes_.data()), probes_.size() * sizeof(Probe));
  content.append(reinterpret_cast<const char*>(fixups_.data()), fixups_.size() * sizeof(Fixup));
  content += code_;
  content += path;
  header.checksum = XXH3_64bits(content.data() + sizeof header, content.size() - sizeof header);
  std::memcpy(content.data(), &header, sizeof header);
  return content;
}

std::optional<ProbePlan> ProbePlan::open(const std::filesystem::path& path) {
  try {
    ProbePlan plan{MappedFile(path)};
    if (plan.parse()) return plan;
  } catch (const Error&) {
    return std::nullopt;  // Absent or unreadable: the caller makes another one.
  }
  return std::nullopt;
}

bool ProbePlan::parse() {
  auto bytes = file_.bytes();
  plan::Header header;
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  bytes = bytes.subspan(sizeof header);
  const std::uint64_t size = std::uint64_t{header.probe_count} * sizeof(Probe) +
                             std::uint64_t{header.fixup_count} * sizeof(Fixup) + header.code_size +
                             header.path_size;
  if (std::memcmp(header.magic, plan::kMagic, sizeof header.magic) != 0 ||
      header.version != plan::kVersion || header.build_id_size > plan::kMaxBuildIdLength ||
      bytes.size() != size || XXH3_64bits(bytes.data(), bytes.size()) != header.checksum) {
    return false;
  }
  for (std::uint32_t i = 0; i < header.build_id_size; ++i)
    build_id_ += fmt::format("{:02x}", header.build_id[i]);
  probes_.resize(header.probe_count);
  fixups_.resize(header.fixup_count);
  const auto probe_bytes = bytes.first(probes_.size() * sizeof(Probe));
  bytes = bytes.subspan(probe_bytes.size());
  const auto fixup_bytes = bytes.first(fixups_.size() * sizeof(Fixup));
  bytes = bytes.subspan(fixup_bytes.size());
  if (!probes_.empty()) std::memcpy(probes_.data(), probe_bytes.data(), probe_bytes.size());
  if (!fixups_.empty()) std::memcpy(fixups_.data(), fixup_bytes.data(), fixup_bytes.size());
  has_evaluation_loop_ = std::ranges::any_of(
      header.evaluation_loop, [](const plan::Piece& piece) { return piece.last > piece.first; });
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  code_ = text.substr(0, header.code_size);
  module_path_ = text.substr(header.code_size);
  return std::ranges::all_of(probes_, [&](const Probe& probe) {
    return std::uint64_t{probe.code_offset} + probe.code_size <= code_.size() &&
           std::uint64_t{probe.first_fixup} + probe.fixup_count <= fixups_.size() &&
           probe.patch <= Patch::jump && probe.kind <= plan::ProbeKind::last &&
           probe.original_size <= sizeof probe.original && probe.displaced > 0;
  });
}

std::span<const Fixup> ProbePlan::fixups(const Probe& probe) const {
  return std::span(fixups_).subspan(probe.first_fixup, probe.fixup_count);
}

std::string_view ProbePlan::code(const Probe& probe) const {
  return code_.substr(probe.code_offset, probe.code_size);
}

}  // namespace optrace

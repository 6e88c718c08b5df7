#include "platform/elf/frame_instructions.h"

#include <algorithm>
#include <array>
#include <vector>

#include <dwarf.h>

namespace optrace {
namespace {

// Instructions that do not concern the canonical frame address.
struct OtherInstruction {
  std::uint8_t opcode;
  int numbers;     // ULEB128 or SLEB128, which are equally long.
  bool has_block;  // A length and as many bytes follow.
};
constexpr auto kOtherInstructions = std::to_array<OtherInstruction>({
    {DW_CFA_nop, 0, false},
    {DW_CFA_restore_extended, 1, false},
    {DW_CFA_undefined, 1, false},
    {DW_CFA_same_value, 1, false},
    {DW_CFA_GNU_args_size, 1, false},
    {DW_CFA_offset_extended, 2, false},
    {DW_CFA_register, 2, false},
    {DW_CFA_offset_extended_sf, 2, false},
    {DW_CFA_val_offset, 2, false},
    {DW_CFA_val_offset_sf, 2, false},
    {DW_CFA_expression, 1, true},
    {DW_CFA_val_expression, 1, true},
});

class FrameProgram {
 public:
  enum class Outcome { go_on, arrived, unsupported };

  FrameProgram(std::span<const std::byte> instructions, std::uint64_t code_alignment,
               std::uint64_t distance, CfaRule& rule)
      : reader_(instructions), code_alignment_(code_alignment), distance_(distance), rule_(rule) {}

  bool run() {
    while (reader_.ok() && !reader_.at_end()) {
      const Outcome outcome = step();
      if (outcome != Outcome::go_on) return outcome == Outcome::arrived;
    }
    return reader_.ok();
  }

 private:
  // The two upper bits of an opcode are an instruction with an operand in the other bits, or 0.
  Outcome step() {
    const auto opcode = reader_.fixed<std::uint8_t>();
    switch (opcode & 0xC0) {
      case DW_CFA_advance_loc:
        return advance(opcode & 0x3F);
      case DW_CFA_offset:
        reader_.uleb();
        return Outcome::go_on;
      case DW_CFA_restore:
        return Outcome::go_on;
      default:
        return extended(opcode);
    }
  }

  Outcome extended(std::uint8_t opcode) {
    switch (opcode) {
      case DW_CFA_advance_loc1:
        return advance(reader_.fixed<std::uint8_t>());
      case DW_CFA_advance_loc2:
        return advance(reader_.fixed<std::uint16_t>());
      case DW_CFA_advance_loc4:
        return advance(reader_.fixed<std::uint32_t>());
      case DW_CFA_remember_state:
        if (states_.size() == kMaxStatesDepth) return Outcome::unsupported;
        states_.push_back(rule_);
        return Outcome::go_on;
      case DW_CFA_restore_state:
        if (states_.empty()) return Outcome::unsupported;
        rule_ = states_.back();
        states_.pop_back();
        return Outcome::go_on;
      case DW_CFA_def_cfa:
        rule_.base = reader_.uleb();
        rule_.offset = reader_.uleb();
        rule_.known = true;
        return Outcome::go_on;
      case DW_CFA_def_cfa_register:
        rule_.base = reader_.uleb();
        return Outcome::go_on;
      case DW_CFA_def_cfa_offset:
        rule_.offset = reader_.uleb();
        return Outcome::go_on;
      case DW_CFA_def_cfa_expression:
        rule_.known = false;
        reader_.skip(reader_.uleb());
        return Outcome::go_on;
      default:
        return skip(opcode);
    }
  }

  Outcome advance(std::uint64_t delta) {
    location_ += delta * code_alignment_;
    return location_ > distance_ ? Outcome::arrived : Outcome::go_on;
  }

  Outcome skip(std::uint8_t opcode) {
    const auto* const known =
        std::ranges::find(kOtherInstructions, opcode, &OtherInstruction::opcode);
    if (known == kOtherInstructions.end()) return Outcome::unsupported;
    for (int number = 0; number < known->numbers; ++number) reader_.uleb();
    if (known->has_block) reader_.skip(reader_.uleb());
    return Outcome::go_on;
  }

  static constexpr std::size_t kMaxStatesDepth = 64;

  FrameReader reader_;
  std::uint64_t code_alignment_;
  std::uint64_t distance_;
  CfaRule& rule_;
  std::uint64_t location_ = 0;
  std::vector<CfaRule> states_;
};

}  // namespace

bool run_frame_instructions(std::span<const std::byte> instructions, std::uint64_t code_alignment,
                            std::uint64_t distance, CfaRule& rule) {
  return FrameProgram(instructions, code_alignment, distance, rule).run();
}

}  // namespace optrace

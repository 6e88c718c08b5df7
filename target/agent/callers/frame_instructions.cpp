// Built with -mgeneral-regs-only for the same reason as event_buffer.cpp.

#include "target/agent/callers/frame_instructions.h"

namespace optrace::agent {
namespace {

// A DWARF expression of the form `DW_OP_breg6 offset`, optionally followed by `DW_OP_deref`.
struct FramePointerExpression {
  bool understood = false;
  bool dereferenced = false;
  std::int64_t offset = 0;
};

FramePointerExpression read_expression(Bytes& bytes) {
  constexpr std::uint8_t kRegister6 = 0x76;
  constexpr std::uint8_t kDereference = 0x06;
  const std::uint64_t size = bytes.unsigned_leb();
  const std::uint64_t begin = bytes.at();
  bytes.skip(size);
  if (!bytes.good()) return {};
  Bytes block(begin, begin + size);
  FramePointerExpression expression;
  const bool starts = block.take<std::uint8_t>() == kRegister6;
  expression.offset = block.signed_leb();
  if (!block.at_end()) {
    expression.dereferenced = block.take<std::uint8_t>() == kDereference;
    expression.understood = expression.dereferenced;
  } else {
    expression.understood = true;
  }
  expression.understood = expression.understood && starts && block.good() && block.at_end();
  return expression;
}

}  // namespace

void Machine::step(Bytes& bytes) {
  const auto opcode = bytes.take<std::uint8_t>();
  const std::uint8_t operand = opcode & 0x3F;
  switch (opcode >> 6) {
    case 1:  // DW_CFA_advance_loc
      advance(operand);
      return;
    case 2:  // DW_CFA_offset
      save(operand, static_cast<std::int64_t>(bytes.unsigned_leb()));
      return;
    case 3:  // DW_CFA_restore
      restore(operand);
      return;
    default:
      if (!change_location(opcode, bytes) && !change_saved(opcode, bytes) &&
          !change_base(opcode, bytes)) {
        bytes.fail();
      }
  }
}

bool Machine::change_location(std::uint8_t opcode, Bytes& bytes) {
  switch (opcode) {
    case 0x00:  // DW_CFA_nop
      return true;
    case 0x02:  // DW_CFA_advance_loc1
      advance(bytes.take<std::uint8_t>());
      return true;
    case 0x03:  // DW_CFA_advance_loc2
      advance(bytes.take<std::uint16_t>());
      return true;
    case 0x04:  // DW_CFA_advance_loc4
      advance(bytes.take<std::uint32_t>());
      return true;
    case 0x0a:  // DW_CFA_remember_state
      if (remembered_count_ == kMaxRemembered) {
        bytes.fail();
        return true;
      }
      remembered_[remembered_count_++] = row_;
      return true;
    case 0x0b:  // DW_CFA_restore_state
      if (remembered_count_ == 0) {
        bytes.fail();
        return true;
      }
      row_ = remembered_[--remembered_count_];
      return true;
    case 0x2e:  // DW_CFA_GNU_args_size
      bytes.unsigned_leb();
      return true;
    default:
      return false;
  }
}

bool Machine::change_saved(std::uint8_t opcode, Bytes& bytes) {
  switch (opcode) {
    case 0x05: {  // DW_CFA_offset_extended
      const std::uint64_t column = bytes.unsigned_leb();
      save(column, static_cast<std::int64_t>(bytes.unsigned_leb()));
      return true;
    }
    case 0x06:  // DW_CFA_restore_extended
      restore(bytes.unsigned_leb());
      return true;
    case 0x07:  // DW_CFA_undefined
      lose_register(bytes.unsigned_leb());
      return true;
    case 0x08: {  // DW_CFA_same_value
      if (bytes.unsigned_leb() == kFramePointer) row_.saved = SavedFramePointer::same;
      return true;
    }
    case 0x09: {  // DW_CFA_register
      const std::uint64_t column = bytes.unsigned_leb();
      bytes.unsigned_leb();
      row_.saved = column == kFramePointer ? SavedFramePointer::unknown : row_.saved;
      row_.base_is_unknown = row_.base_is_unknown || column == kReturnAddress;
      return true;
    }
    case 0x10: {  // DW_CFA_expression
      const std::uint64_t column = bytes.unsigned_leb();
      const FramePointerExpression expression = read_expression(bytes);
      if (column == kFramePointer) {
        const bool plain = expression.understood && !expression.dereferenced;
        row_.saved = plain ? SavedFramePointer::at_frame_pointer : SavedFramePointer::unknown;
        row_.saved_offset = expression.offset;
      }
      row_.base_is_unknown = row_.base_is_unknown || column == kReturnAddress;
      return true;
    }
    case 0x11: {  // DW_CFA_offset_extended_sf
      const std::uint64_t column = bytes.unsigned_leb();
      save(column, bytes.signed_leb());
      return true;
    }
    default:
      return false;
  }
}

bool Machine::change_base(std::uint8_t opcode, Bytes& bytes) {
  switch (opcode) {
    case 0x0c: {  // DW_CFA_def_cfa
      const std::uint64_t base = bytes.unsigned_leb();
      set_base(base, static_cast<std::int64_t>(bytes.unsigned_leb()));
      return true;
    }
    case 0x0d:  // DW_CFA_def_cfa_register
      set_base(bytes.unsigned_leb(), row_.base_offset);
      return true;
    case 0x0e:  // DW_CFA_def_cfa_offset
      row_.base_offset = static_cast<std::int64_t>(bytes.unsigned_leb());
      return true;
    case 0x0f: {  // DW_CFA_def_cfa_expression
      const FramePointerExpression expression = read_expression(bytes);
      set_base(kFramePointer, expression.offset);
      row_.base_is_target = expression.dereferenced;
      row_.base_is_unknown = !expression.understood;
      return true;
    }
    case 0x12: {  // DW_CFA_def_cfa_sf
      const std::uint64_t base = bytes.unsigned_leb();
      set_base(base, bytes.signed_leb() * common_.data_factor);
      return true;
    }
    case 0x13:  // DW_CFA_def_cfa_offset_sf
      row_.base_offset = bytes.signed_leb() * common_.data_factor;
      return true;
    default:
      return false;
  }
}

}  // namespace optrace::agent

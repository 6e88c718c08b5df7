#pragma once

#include <cstdint>

#include "target/agent/callers/frame_bytes.h"
#include "target/agent/callers/frame_rules.h"

namespace optrace::agent {

/// DWARF register numbers (System V ABI, AMD64, figure 3.36).
constexpr std::uint64_t kFramePointer = 6;
constexpr std::uint64_t kStackPointer = 7;
constexpr std::uint64_t kReturnAddress = 16;

/// Data shared by the entries of one compilation unit (CIE).
struct Common {
  std::uint64_t code_factor = 1;
  std::int64_t data_factor = 1;
  std::uint64_t instructions = 0, end = 0;
  bool augmented = false;
};

/// The part of the state set by call frame instructions that is needed to find the caller's frame.
struct Row {
  std::uint64_t base_register = kStackPointer;
  std::int64_t base_offset = 8;
  bool base_is_target = false;  ///< The CFA is the word at rbp + base_offset.
  bool base_is_unknown = false;
  SavedFramePointer saved = SavedFramePointer::same;
  std::int64_t saved_offset = 0;
  bool outermost = false;
};

/// Executes call frame instructions (DWARF 5, 6.4.2) up to an address.
class Machine {
 public:
  Machine(const Common& common, std::uint64_t function, std::uint64_t address)
      : common_(common), location_(function), address_(address) {}

  /// Returns false for an unsupported instruction.
  bool run(std::uint64_t at, std::uint64_t end) {
    Bytes bytes(at, end);
    while (!bytes.at_end() && location_ <= address_) step(bytes);
    return bytes.good();
  }

  void begin() { initial_ = row_; }
  const Row& row() const { return row_; }

 private:
  void advance(std::uint64_t by) { location_ += by * common_.code_factor; }
  void save(std::uint64_t column, std::int64_t offset) {
    if (column == kFramePointer) {
      row_.saved = SavedFramePointer::at_cfa;
      row_.saved_offset = offset * common_.data_factor;
    } else if (column == kReturnAddress && offset * common_.data_factor != -8) {
      row_.base_is_unknown = true;  // The return slot is not where a call instruction puts it.
    }
  }
  void restore(std::uint64_t column) {
    if (column == kFramePointer) {
      row_.saved = initial_.saved;
      row_.saved_offset = initial_.saved_offset;
    }
  }
  void lose_register(std::uint64_t column) {
    if (column == kFramePointer)
      row_.saved = SavedFramePointer::unknown;
    else if (column == kReturnAddress)
      row_.outermost = true;
  }
  void set_base(std::uint64_t base, std::int64_t offset) {
    row_.base_register = base;
    row_.base_offset = offset;
    row_.base_is_target = false;
    row_.base_is_unknown = base != kStackPointer && base != kFramePointer;
  }
  void step(Bytes& bytes);
  // The instructions without an operand in their opcode. Each function executes those about its
  // subject, and returns false for others.
  bool change_location(std::uint8_t opcode, Bytes& bytes);
  bool change_saved(std::uint8_t opcode, Bytes& bytes);
  bool change_base(std::uint8_t opcode, Bytes& bytes);

  const Common& common_;
  std::uint64_t location_;
  std::uint64_t address_;
  Row row_;
  Row initial_;
  static constexpr int kMaxRemembered = 8;
  Row remembered_[kMaxRemembered];
  int remembered_count_ = 0;
};

}  // namespace optrace::agent

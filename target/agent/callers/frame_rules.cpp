// Built with -mgeneral-regs-only for the same reason as event_buffer.cpp.

#include "target/agent/callers/frame_rules.h"

#include "target/agent/callers/frame_modules.h"
#include "target/agent/process/pages.h"
#include "target/agent/process/system_calls.h"
#include "target/agent/recording/region.h"

extern "C" {
/// Calls look_up_frame_module with the vector registers saved, because they hold arguments of the
/// probed function.
__attribute__((visibility("hidden"))) bool optrace_agent_look_up_module(
    std::uint64_t address, optrace::agent::FrameModule* module);
__attribute__((visibility("hidden"))) bool optrace_agent_module_around(
    std::uint64_t address, optrace::agent::FrameModule* module) {
  return optrace::agent::look_up_frame_module(address, *module);
}
}

asm(R"(
  .pushsection .text
  .hidden optrace_agent_look_up_module
  .type optrace_agent_look_up_module, @function
optrace_agent_look_up_module:
  .cfi_startproc
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  subq $256, %rsp
  andq $-16, %rsp
  .irp number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
  movaps %xmm\number, 16*\number(%rsp)
  .endr
  call optrace_agent_module_around
  .irp number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
  movaps 16*\number(%rsp), %xmm\number
  .endr
  movq %rbp, %rsp
  popq %rbp
  .cfi_def_cfa %rsp, 8
  ret
  .cfi_endproc
  .size optrace_agent_look_up_module, . - optrace_agent_look_up_module
  .popsection
)");

namespace optrace::agent {

namespace {

// DWARF register numbers (System V ABI, AMD64, figure 3.36).
constexpr std::uint64_t kFramePointer = 6;
constexpr std::uint64_t kStackPointer = 7;
constexpr std::uint64_t kReturnAddress = 16;

// Pointer encodings that the GNU and LLVM linkers write (LSB, .eh_frame_hdr).
constexpr std::uint8_t kSigned4FromHere = 0x1b;
constexpr std::uint8_t kUnsigned4 = 0x03;
constexpr std::uint8_t kSigned4FromTable = 0x3b;

struct List {
  const FrameModule* modules = nullptr;
  std::uint32_t count = 0;
};
List listed[2];
std::uint32_t listed_now = 0;  // Index of the list that is in use.
bool outdated = false;

// Reads [at, end). A read beyond the end fails, and so do all later reads.
class Bytes {
 public:
  Bytes(std::uint64_t at, std::uint64_t end) : at_(at), end_(end) {}

  bool good() const { return good_; }
  bool at_end() const { return !good_ || at_ >= end_; }
  std::uint64_t at() const { return at_; }
  void fail() { good_ = false; }

  template <typename T>
  T take() {
    T value{};
    if (!good_ || end_ - at_ < sizeof(T)) {
      good_ = false;
      return value;
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    __builtin_memcpy(&value, reinterpret_cast<const void*>(at_), sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  void skip(std::uint64_t size) {
    good_ = good_ && size <= end_ - at_;
    at_ += good_ ? size : 0;
  }
  std::uint64_t unsigned_leb() {
    std::uint64_t value = 0;
    std::uint8_t byte = 0x80;
    for (unsigned shift = 0; good_ && (byte & 0x80) != 0; shift += 7) {
      byte = take<std::uint8_t>();
      value |= shift < 64 ? std::uint64_t{byte & 0x7FU} << shift : 0;
    }
    return value;
  }
  std::int64_t signed_leb() {
    std::uint64_t value = 0;
    std::uint8_t byte = 0x80;
    unsigned shift = 0;
    for (; good_ && (byte & 0x80) != 0; shift += 7) {
      byte = take<std::uint8_t>();
      value |= shift < 64 ? std::uint64_t{byte & 0x7FU} << shift : 0;
    }
    if (shift < 64 && (byte & 0x40) != 0) {
      value |= ~std::uint64_t{0} << shift;
    }
    return static_cast<std::int64_t>(value);
  }

 private:
  std::uint64_t at_;
  std::uint64_t end_;
  bool good_ = true;
};

// Returns true if the module is still at its address: it may have been unloaded since it was
// listed.
bool is_there(const FrameModule& module) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const auto* const table = reinterpret_cast<const std::uint64_t*>(module.table);
  return is_readable(module.table) &&
         is_readable(page_floor(module.table + module.table_size - 1)) && *table == module.mark;
}

const FrameModule* find_module(std::uint64_t address) {
  const List list = listed[__atomic_load_n(&listed_now, __ATOMIC_ACQUIRE)];
  std::uint32_t low = 0;
  for (std::uint32_t high = list.count; low < high;) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (list.modules[middle].first <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0 || address >= list.modules[low - 1].last) {
    return nullptr;
  }
  return &list.modules[low - 1];
}

// Returns the address of the entry (FDE) for the function that contains `address`, or 0.
std::uint64_t find_entry(const FrameModule& module, std::uint64_t address) {
  Bytes header(module.table, module.table + module.table_size);
  const auto version = header.take<std::uint8_t>();
  const auto frame_encoding = header.take<std::uint8_t>();
  const auto count_encoding = header.take<std::uint8_t>();
  const auto table_encoding = header.take<std::uint8_t>();
  header.skip(4);  // Skip the address of .eh_frame.
  std::uint64_t count = header.take<std::uint32_t>();
  if (version != 1 || frame_encoding != kSigned4FromHere || count_encoding != kUnsigned4 ||
      table_encoding != kSigned4FromTable || !header.good()) {
    return 0;
  }
  struct Row {
    std::int32_t function;
    std::int32_t entry;
  };
  const std::uint64_t most = (module.table_size - 12) / sizeof(Row);
  count = count < most ? count : most;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const auto* const rows = reinterpret_cast<const Row*>(header.at());
  const auto wanted = static_cast<std::int64_t>(address - module.table);
  std::uint64_t low = 0;
  for (std::uint64_t high = count; low < high;) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (rows[middle].function <= wanted) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low == 0 ? 0
                  : module.table + static_cast<std::uint64_t>(std::int64_t{rows[low - 1].entry});
}

// Data shared by the entries of one compilation unit (CIE).
struct Common {
  std::uint64_t code_factor = 1;
  std::int64_t data_factor = 1;
  std::uint64_t instructions = 0, end = 0;
  bool augmented = false;
};

bool read_common(std::uint64_t at, const FrameModule& module, Common& common) {
  if (at < module.first || at >= module.last) {
    return false;
  }
  Bytes bytes(at, module.last);
  const auto size = bytes.take<std::uint32_t>();
  if (!bytes.good() || size == 0 || size > module.last - bytes.at()) {
    return false;
  }
  common.end = bytes.at() + size;
  Bytes body(bytes.at(), common.end);
  const auto id = body.take<std::uint32_t>();
  const auto version = body.take<std::uint8_t>();
  char letters[8] = {};
  for (char& letter : letters) {
    letter = body.take<char>();
    if (letter == 0) {
      break;
    }
  }
  common.code_factor = body.unsigned_leb();
  common.data_factor = body.signed_leb();
  const std::uint64_t column = version == 1 ? body.take<std::uint8_t>() : body.unsigned_leb();
  if (id != 0 || (version != 1 && version != 3) || column != kReturnAddress ||
      letters[sizeof(letters) - 1] != 0 || (letters[0] != 0 && letters[0] != 'z')) {
    return false;
  }
  common.augmented = letters[0] == 'z';
  if (common.augmented) {
    const std::uint64_t data_size = body.unsigned_leb();
    Bytes data(body.at(), common.end);
    body.skip(data_size);
    for (int i = 1; letters[i] != 0; ++i) {
      switch (letters[i]) {
        case 'R':
          if (data.take<std::uint8_t>() != kSigned4FromHere) {
            return false;
          }
          break;
        case 'P': {
          const auto encoding = data.take<std::uint8_t>();
          const std::uint8_t form = encoding & 0x0F;
          data.skip(form == 0x0 || form == 0x4 || form == 0xC ? 8 : 4);
          break;
        }
        case 'L':
          data.skip(1);
          break;
        default:
          return false;  // Not supported, for example 'S' (signal frame).
      }
    }
    if (!data.good()) {
      return false;
    }
  }
  common.instructions = body.at();
  return body.good();
}

// The part of the state set by call frame instructions that is needed to find the caller's frame.
struct Row {
  std::uint64_t base_register = kStackPointer;
  std::int64_t base_offset = 8;
  bool base_is_target = false;  // The CFA is the word at rbp + base_offset.
  bool base_is_unknown = false;
  SavedFramePointer saved = SavedFramePointer::same;
  std::int64_t saved_offset = 0;
  bool outermost = false;
};

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
  if (!bytes.good()) {
    return {};
  }
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

// Executes call frame instructions (DWARF 5, 6.4.2) up to an address.
class Machine {
 public:
  Machine(const Common& common, std::uint64_t function, std::uint64_t address)
      : common_(common), location_(function), address_(address) {}

  // Returns false for an unsupported instruction.
  bool run(std::uint64_t at, std::uint64_t end) {
    Bytes bytes(at, end);
    while (!bytes.at_end() && location_ <= address_) {
      step(bytes);
    }
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
  void forget(std::uint64_t column) {
    if (column == kFramePointer) {
      row_.saved = SavedFramePointer::unknown;
    } else if (column == kReturnAddress) {
      row_.outermost = true;
    }
  }
  void set_base(std::uint64_t base, std::int64_t offset) {
    row_.base_register = base;
    row_.base_offset = offset;
    row_.base_is_target = false;
    row_.base_is_unknown = base != kStackPointer && base != kFramePointer;
  }
  void step(Bytes& bytes);
  void extended(std::uint8_t opcode, Bytes& bytes);

  const Common& common_;
  std::uint64_t location_;
  std::uint64_t address_;
  Row row_;
  Row initial_;
  static constexpr int kMaxRemembered = 8;
  Row remembered_[kMaxRemembered];
  int remembered_count_ = 0;
};

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
      extended(opcode, bytes);
  }
}

void Machine::extended(std::uint8_t opcode, Bytes& bytes) {
  switch (opcode) {
    case 0x00:  // DW_CFA_nop
      return;
    case 0x02:  // DW_CFA_advance_loc1
      advance(bytes.take<std::uint8_t>());
      return;
    case 0x03:  // DW_CFA_advance_loc2
      advance(bytes.take<std::uint16_t>());
      return;
    case 0x04:  // DW_CFA_advance_loc4
      advance(bytes.take<std::uint32_t>());
      return;
    case 0x05: {  // DW_CFA_offset_extended
      const std::uint64_t column = bytes.unsigned_leb();
      save(column, static_cast<std::int64_t>(bytes.unsigned_leb()));
      return;
    }
    case 0x06:  // DW_CFA_restore_extended
      restore(bytes.unsigned_leb());
      return;
    case 0x07:  // DW_CFA_undefined
      forget(bytes.unsigned_leb());
      return;
    case 0x08: {  // DW_CFA_same_value
      if (bytes.unsigned_leb() == kFramePointer) {
        row_.saved = SavedFramePointer::same;
      }
      return;
    }
    case 0x09: {  // DW_CFA_register
      const std::uint64_t column = bytes.unsigned_leb();
      bytes.unsigned_leb();
      row_.saved = column == kFramePointer ? SavedFramePointer::unknown : row_.saved;
      row_.base_is_unknown = row_.base_is_unknown || column == kReturnAddress;
      return;
    }
    case 0x0a:  // DW_CFA_remember_state
      if (remembered_count_ == kMaxRemembered) {
        bytes.fail();
        return;
      }
      remembered_[remembered_count_++] = row_;
      return;
    case 0x0b:  // DW_CFA_restore_state
      if (remembered_count_ == 0) {
        bytes.fail();
        return;
      }
      row_ = remembered_[--remembered_count_];
      return;
    case 0x0c: {  // DW_CFA_def_cfa
      const std::uint64_t base = bytes.unsigned_leb();
      set_base(base, static_cast<std::int64_t>(bytes.unsigned_leb()));
      return;
    }
    case 0x0d:  // DW_CFA_def_cfa_register
      set_base(bytes.unsigned_leb(), row_.base_offset);
      return;
    case 0x0e:  // DW_CFA_def_cfa_offset
      row_.base_offset = static_cast<std::int64_t>(bytes.unsigned_leb());
      return;
    case 0x0f: {  // DW_CFA_def_cfa_expression
      const FramePointerExpression expression = read_expression(bytes);
      set_base(kFramePointer, expression.offset);
      row_.base_is_target = expression.dereferenced;
      row_.base_is_unknown = !expression.understood;
      return;
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
      return;
    }
    case 0x12: {  // DW_CFA_def_cfa_sf
      const std::uint64_t base = bytes.unsigned_leb();
      set_base(base, bytes.signed_leb() * common_.data_factor);
      return;
    }
    case 0x13:  // DW_CFA_def_cfa_offset_sf
      row_.base_offset = bytes.signed_leb() * common_.data_factor;
      return;
    case 0x11: {  // DW_CFA_offset_extended_sf
      const std::uint64_t column = bytes.unsigned_leb();
      save(column, bytes.signed_leb());
      return;
    }
    case 0x2e:  // DW_CFA_GNU_args_size
      bytes.unsigned_leb();
      return;
    default:
      bytes.fail();
  }
}

bool fits(std::int64_t offset) {
  return offset == static_cast<std::int32_t>(offset);
}

void fill(const Row& row, FrameRule& rule) {
  rule.base_offset = static_cast<std::int32_t>(row.base_offset);
  rule.saved_offset = static_cast<std::int32_t>(row.saved_offset);
  rule.saved = fits(row.saved_offset) ? row.saved : SavedFramePointer::unknown;
  if (row.outermost) {
    rule.base = FrameBase::outermost;
  } else if (row.base_is_unknown || !fits(row.base_offset)) {
    rule.base = FrameBase::unknown;
  } else if (row.base_is_target) {
    rule.base = FrameBase::frame_pointer_target;
  } else {
    rule.base =
        row.base_register == kStackPointer ? FrameBase::stack_pointer : FrameBase::frame_pointer;
  }
}

}  // namespace

void use_frame_modules(const FrameModule* modules, std::uint32_t count) {
  const std::uint32_t next = 1 - __atomic_load_n(&listed_now, __ATOMIC_RELAXED);
  listed[next] = {modules, count};
  __atomic_store_n(&listed_now, next, __ATOMIC_RELEASE);
  frame_modules_are_current();
}

void frame_modules_are_current() {
  __atomic_store_n(&outdated, false, __ATOMIC_RELAXED);
}

bool frame_modules_outdated() {
  return __atomic_load_n(&outdated, __ATOMIC_RELAXED);
}

bool find_frame_rule(std::uint64_t address, FrameRule& rule) {
  rule = {};
  const FrameModule* module = find_module(address);
  FrameModule loaded{};
  if (module == nullptr || !is_there(*module)) {
    __atomic_store_n(&outdated, true, __ATOMIC_RELAXED);
    if (!optrace_agent_look_up_module(address, &loaded) || !is_there(loaded)) {
      return false;
    }
    module = &loaded;
    note_met_module();
  }
  const std::uint64_t at = find_entry(*module, address);
  if (at == 0 || at < module->first || at >= module->last) {
    return true;
  }
  Bytes entry(at, module->last);
  const auto size = entry.take<std::uint32_t>();
  const std::uint64_t common_pointer = entry.at();
  if (!entry.good() || size == 0 || size > module->last - entry.at()) {
    return true;
  }
  const std::uint64_t end = entry.at() + size;
  const auto common_distance = entry.take<std::uint32_t>();
  const std::uint64_t here = entry.at();
  const std::uint64_t function =
      here + static_cast<std::uint64_t>(std::int64_t{entry.take<std::int32_t>()});
  const std::uint64_t bytes = entry.take<std::uint32_t>();
  Common common;
  if (!entry.good() || address < function || address - function >= bytes ||
      !read_common(common_pointer - common_distance, *module, common)) {
    return true;
  }
  rule.function = function;
  if (common.augmented) {
    entry.skip(entry.unsigned_leb());
  }
  Machine machine(common, function, address);
  if (!entry.good() || !machine.run(common.instructions, common.end)) {
    return true;
  }
  machine.begin();
  if (machine.run(entry.at(), end)) {
    fill(machine.row(), rule);
  }
  return true;
}

}  // namespace optrace::agent

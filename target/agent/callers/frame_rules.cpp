// Built with -mgeneral-regs-only for the same reason as event_buffer.cpp.

#include "target/agent/callers/frame_rules.h"

#include "target/agent/callers/frame_bytes.h"
#include "target/agent/callers/frame_instructions.h"
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
    if (list.modules[middle].first <= address)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == 0 || address >= list.modules[low - 1].last) return nullptr;
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
  const auto searched = static_cast<std::int64_t>(address - module.table);
  std::uint64_t low = 0;
  for (std::uint64_t high = count; low < high;) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (rows[middle].function <= searched)
      low = middle + 1;
    else
      high = middle;
  }
  return low == 0 ? 0
                  : module.table + static_cast<std::uint64_t>(std::int64_t{rows[low - 1].entry});
}

bool read_common(std::uint64_t at, const FrameModule& module, Common& common) {
  if (at < module.first || at >= module.last) return false;
  Bytes bytes(at, module.last);
  const auto size = bytes.take<std::uint32_t>();
  if (!bytes.good() || size == 0 || size > module.last - bytes.at()) return false;
  common.end = bytes.at() + size;
  Bytes body(bytes.at(), common.end);
  const auto id = body.take<std::uint32_t>();
  const auto version = body.take<std::uint8_t>();
  char letters[8] = {};
  for (char& letter : letters) {
    letter = body.take<char>();
    if (letter == 0) break;
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
          if (data.take<std::uint8_t>() != kSigned4FromHere) return false;
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
    if (!data.good()) return false;
  }
  common.instructions = body.at();
  return body.good();
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
    if (!optrace_agent_look_up_module(address, &loaded) || !is_there(loaded)) return false;
    module = &loaded;
    record_met_module();
  }
  const std::uint64_t at = find_entry(*module, address);
  if (at == 0 || at < module->first || at >= module->last) return true;
  Bytes entry(at, module->last);
  const auto size = entry.take<std::uint32_t>();
  const std::uint64_t common_pointer = entry.at();
  if (!entry.good() || size == 0 || size > module->last - entry.at()) return true;
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
  if (common.augmented) entry.skip(entry.unsigned_leb());
  Machine machine(common, function, address);
  if (!entry.good() || !machine.run(common.instructions, common.end)) return true;
  machine.begin();
  if (machine.run(entry.at(), end)) fill(machine.row(), rule);
  return true;
}

}  // namespace optrace::agent

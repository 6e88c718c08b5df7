// The part of ModuleSymbols that reads .eh_frame and its header.

#include <string>
#include <string_view>

#include "platform/elf/frame_instructions.h"
#include "platform/elf/module_symbols.h"
#include "platform/elf/read_at.h"

namespace optrace {
namespace {

// DWARF 5, section 7.24, and the pointer encodings of the LSB's .eh_frame chapter.
constexpr std::uint8_t kPointerAbsolute = 0x00;
constexpr std::uint8_t kPointerRelative4 = 0x1B;      // pcrel, sdata4
constexpr std::uint8_t kPointerDataRelative4 = 0x3B;  // datarel, sdata4
constexpr std::uint8_t kCountUnsigned4 = 0x03;        // udata4

constexpr std::uint64_t kStackPointerRegister = 7;  // rsp in the System V ABI's DWARF numbers

// A common information entry.
struct Cie {
  bool has_augmentation = false;
  std::uint64_t code_alignment = 1;
  std::uint8_t pointer_encoding = kPointerAbsolute;
  std::span<const std::byte> instructions;
};

// Reads the augmentation data that the letters after `z` describe. Returns false if one of them is
// not supported.
bool read_augmentation(std::string_view letters, FrameReader data, Cie& cie) {
  for (const char letter : letters) {
    if (letter == 'R') {
      cie.pointer_encoding = data.fixed<std::uint8_t>();
    } else if (letter == 'L') {
      data.fixed<std::uint8_t>();
    } else if (letter == 'P') {
      const auto personality = data.fixed<std::uint8_t>();
      data.skip((personality & 0x0F) == 0x0B || (personality & 0x0F) == 0x03 ? 4 : 8);
    } else if (letter != 'S' && letter != 'B') {
      return false;
    }
  }
  return data.ok();
}

// Parses what follows the length of a common information entry.
std::optional<Cie> parse_cie(FrameReader reader) {
  if (reader.fixed<std::uint32_t>() != 0) return std::nullopt;
  const auto version = reader.fixed<std::uint8_t>();
  std::string augmentation;
  for (char c = 0; reader.ok() && (c = reader.fixed<char>()) != 0;) augmentation += c;
  Cie cie;
  cie.has_augmentation = !augmentation.empty();
  cie.code_alignment = reader.uleb();
  reader.uleb();  // data alignment: signed, but of the same length as an unsigned one
  if (version == 1)
    reader.fixed<std::uint8_t>();  // return address register
  else
    reader.uleb();
  if (cie.has_augmentation && (augmentation[0] != 'z' ||
                               !read_augmentation(std::string_view(augmentation).substr(1),
                                                  FrameReader(reader.take(reader.uleb())), cie))) {
    return std::nullopt;
  }
  if (!reader.ok()) return std::nullopt;
  cie.instructions = reader.rest();
  return cie;
}

}  // namespace

void ModuleSymbols::read_frame_header(std::uint64_t address, std::uint64_t size) {
  const auto header = bytes_at(address, size);
  FrameReader reader(header);
  const auto version = reader.fixed<std::uint8_t>();
  const auto frame_encoding = reader.fixed<std::uint8_t>();
  const auto count_encoding = reader.fixed<std::uint8_t>();
  const auto table_encoding = reader.fixed<std::uint8_t>();
  // GNU ld, gold and lld write these encodings. Without a searchable table, the bounds that
  // .eh_frame would give are unknown.
  if (version != 1 || frame_encoding != kPointerRelative4 || count_encoding != kCountUnsigned4 ||
      table_encoding != kPointerDataRelative4) {
    return;
  }
  reader.skip(sizeof(std::int32_t));
  const auto count = reader.fixed<std::uint32_t>();
  frame_header_address_ = address;
  frame_table_ = reader.take(std::uint64_t{count} * 2 * sizeof(std::int32_t));
}

std::uint64_t ModuleSymbols::from_frame_table(std::size_t offset) const {
  const auto relative = read_at<std::int32_t>(frame_table_, offset).value_or(0);
  return frame_header_address_ + static_cast<std::uint64_t>(std::int64_t{relative});
}

std::uint64_t ModuleSymbols::fde_start(std::size_t entry) const {
  return from_frame_table(entry * 2 * sizeof(std::int32_t));
}

std::size_t ModuleSymbols::fdes_up_to(std::uint64_t address) const {
  std::size_t low = 0;
  std::size_t high = fde_count();
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (fde_start(middle) <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

std::optional<ModuleSymbols::Fde> ModuleSymbols::fde_at(std::uint64_t address) const {
  const std::size_t behind = fdes_up_to(address);
  if (behind == 0) return std::nullopt;
  auto fde =
      parse_fde(from_frame_table((behind - 1) * 2 * sizeof(std::int32_t) + sizeof(std::int32_t)));
  if (!fde || address < fde->address || address - fde->address >= fde->size) return std::nullopt;
  return fde;
}

std::optional<ModuleSymbols::Fde> ModuleSymbols::parse_fde(std::uint64_t address) const {
  const auto length = read_at<std::uint32_t>(bytes_at(address, 4), 0);
  if (!length || *length < 8 || *length == 0xFFFFFFFF) return std::nullopt;
  const auto body = bytes_at(address + 4, *length);
  FrameReader fde(body);
  const auto cie_distance = fde.fixed<std::uint32_t>();
  if (body.empty() || cie_distance == 0) return std::nullopt;

  const std::uint64_t cie_address = address + 4 - cie_distance;
  const auto cie_length = read_at<std::uint32_t>(bytes_at(cie_address, 4), 0);
  if (!cie_length || *cie_length == 0xFFFFFFFF) return std::nullopt;
  const auto cie = parse_cie(FrameReader(bytes_at(cie_address + 4, *cie_length)));
  if (!cie) return std::nullopt;

  Fde result;
  if (cie->pointer_encoding == kPointerRelative4) {
    const std::uint64_t at = address + 8;
    result.address = at + static_cast<std::uint64_t>(std::int64_t{fde.fixed<std::int32_t>()});
    result.size = fde.fixed<std::uint32_t>();
  } else if (cie->pointer_encoding == kPointerAbsolute) {
    result.address = fde.fixed<std::uint64_t>();
    result.size = fde.fixed<std::uint64_t>();
  } else {
    return std::nullopt;
  }
  if (cie->has_augmentation) fde.skip(fde.uleb());
  if (!fde.ok() || result.address + result.size < result.address) return std::nullopt;
  result.code_alignment = cie->code_alignment;
  result.cie_instructions = cie->instructions;
  result.instructions = fde.rest();
  return result;
}

std::optional<bool> ModuleSymbols::return_address_on_top(std::uint64_t address) const {
  const auto fde = fde_at(address);
  CfaRule rule;
  if (!fde || !run_frame_instructions(fde->cie_instructions, 1, 0, rule) ||
      !run_frame_instructions(fde->instructions, fde->code_alignment, address - fde->address,
                              rule)) {
    return std::nullopt;
  }
  return rule.known && rule.base == kStackPointerRegister && rule.offset == 8;
}

}  // namespace optrace

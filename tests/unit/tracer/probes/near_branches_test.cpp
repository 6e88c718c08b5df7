#include "platform/elf/near_branches.h"

#include <cstddef>
#include <random>
#include <span>
#include <vector>

#include <catch2/catch.hpp>

using namespace optrace;

namespace {

using Offsets = std::vector<std::size_t>;

unsigned at(std::span<const std::byte> code, std::size_t offset) {
  return std::to_integer<unsigned>(code[offset]);
}

Offsets near_branches(std::span<const std::byte> code) {
  Offsets found;
  for_each_near_branch(code, [&](std::size_t offset) { found.push_back(offset); });
  return found;
}

Offsets near_branches_one_by_one(std::span<const std::byte> code) {
  Offsets found;
  for (std::size_t i = 0; i < code.size(); ++i) {
    const bool is_jcc = i > 0 && at(code, i - 1) == 0x0F && at(code, i) >> 4U == 8;
    if (at(code, i) == 0xE8 || at(code, i) == 0xE9 || is_jcc) found.push_back(i);
  }
  return found;
}

Offsets direct_calls(std::span<const std::byte> code) {
  Offsets found;
  for_each_direct_call(code, [&](std::size_t offset) { found.push_back(offset); });
  return found;
}

Offsets direct_calls_one_by_one(std::span<const std::byte> code) {
  Offsets found;
  for (std::size_t i = 0; i < code.size(); ++i)
    if (at(code, i) == 0xE8) found.push_back(i);
  return found;
}

Offsets indirect_branches(std::span<const std::byte> code) {
  Offsets found;
  for_each_indirect_branch(code, [&](std::size_t offset) { found.push_back(offset); });
  return found;
}

Offsets indirect_branches_one_by_one(std::span<const std::byte> code) {
  Offsets found;
  for (std::size_t i = 0; i + 1 < code.size(); ++i) {
    const unsigned modrm = at(code, i + 1);
    if (at(code, i) == 0xFF && ((modrm >> 3U & 7U) == 2 || modrm == 0x25)) found.push_back(i);
  }
  return found;
}

}  // namespace

TEST_CASE("branches are found wherever they are in the code", "[near_branches]") {
  constexpr unsigned char kBytes[] = {0x0F, 0x25, 0x15, 0x7F, 0x80, 0x8F, 0x90,
                                      0xD0, 0xE7, 0xE8, 0xE9, 0xEA, 0xFF};
  std::mt19937 random(7);
  for (std::size_t size = 0; size < 300; ++size) {
    std::vector<std::byte> code(size);
    for (std::byte& byte : code) byte = std::byte{kBytes[random() % std::size(kBytes)]};
    CHECK(near_branches(code) == near_branches_one_by_one(code));
    CHECK(direct_calls(code) == direct_calls_one_by_one(code));
    CHECK(indirect_branches(code) == indirect_branches_one_by_one(code));
  }
}

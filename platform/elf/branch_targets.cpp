#include "platform/elf/branch_targets.h"

#include <algorithm>
#include <cstring>

#include <Zydis/Zydis.h>
#include <xxhash.h>

#include "platform/elf/address_filter.h"
#include "platform/elf/near_branches.h"

namespace optrace {
namespace {

constexpr char kMagic[8] = {'O', 'P', 'T', 'L', 'A', 'N', 'D', '\0'};
constexpr std::uint32_t kVersion = 1;

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t count;
  std::uint64_t checksum;  ///< XXH3_64bits of the candidates.
};

/// Starts of functions.
class Starts {
 public:
  explicit Starts(const ModuleSymbols& module)
      : starts_(module.starts()), before_targets_(2 * starts_.size()) {
    for (const std::uint64_t start : starts_) {
      before_targets_.add(start);
      before_targets_.add(start + kJumpSize - 2);
    }
  }

  /// Returns true if `target` is one of bytes 1 to 4 of a function.
  bool behind_entry(std::uint64_t target) const {
    if (!before_targets_.may_contain(target - 1)) return false;
    const auto after = std::ranges::lower_bound(starts_, target);
    return after != starts_.begin() && target - *std::prev(after) < kJumpSize;
  }

 private:
  std::vector<std::uint64_t> starts_;
  /// The bytes before those. Most branches are calls, whose targets are starts: the byte before an
  /// aligned start is in another block of the filter.
  AddressFilter before_targets_;
};

std::uint64_t relative_target(std::uint64_t end, std::int64_t displacement) {
  return end + static_cast<std::uint64_t>(displacement);
}

/// Returns true if a branch to `target` ends at `end`. Decodes from the last function start before
/// `end`, also through the padding after that function. Code that can't be decoded counts as a
/// branch.
bool is_branch(const ModuleSymbols& module, std::uint64_t end, std::uint64_t target) {
  const auto start = module.last_start(end - 1);
  if (!start) return true;
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  auto code = module.code(*start, end - *start + ZYDIS_MAX_INSTRUCTION_LENGTH);
  std::uint64_t at = *start;
  while (at < end) {
    ZydisDecodedInstruction instruction;
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, nullptr, code.data(), code.size(),
                                                    &instruction))) {
      return true;
    }
    at += instruction.length;
    code = code.subspan(instruction.length);
    if (at == end) {
      return instruction.raw.imm[0].is_relative != 0 &&
             relative_target(end, instruction.raw.imm[0].value.s) == target;
    }
  }
  return false;
}

bool is_short_branch(unsigned char opcode) {
  return (opcode & 0xF0) == 0x70 || opcode == 0xEB || (opcode & 0xFC) == 0xE0;
}

}  // namespace

BranchTargets BranchTargets::search(const ModuleSymbols& module) {
  BranchTargets result;
  const Starts starts(module);
  for (const auto& [address, code] : module.executable_segments()) {
    for_each_near_branch(code, [&, start = address, bytes = code](std::size_t opcode) {
      std::int32_t displacement = 0;
      if (bytes.size() - opcode - 1 < sizeof displacement) return;
      std::memcpy(&displacement, bytes.data() + opcode + 1, sizeof displacement);
      const std::uint64_t end = start + opcode + 1 + sizeof displacement;
      const std::uint64_t target = relative_target(end, displacement);
      if (starts.behind_entry(target)) result.candidates_.push_back({target, end});
    });
  }
  std::ranges::sort(result.candidates_, {}, &Candidate::target);
  return result;
}

std::optional<BranchTargets> BranchTargets::from_bytes(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  const auto content = bytes.subspan(sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.version != kVersion ||
      content.size() % sizeof(Candidate) != 0 ||
      content.size() / sizeof(Candidate) != header.count ||
      XXH3_64bits(content.data(), content.size()) != header.checksum) {
    return std::nullopt;
  }
  BranchTargets result;
  result.candidates_.resize(header.count);
  if (!content.empty()) std::memcpy(result.candidates_.data(), content.data(), content.size());
  if (!std::ranges::is_sorted(result.candidates_, {}, &Candidate::target)) return std::nullopt;
  return result;
}

std::string BranchTargets::to_bytes() const {
  const std::span<const Candidate> candidates(candidates_);
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.count = static_cast<std::uint32_t>(candidates.size());
  header.checksum = XXH3_64bits(candidates.data(), candidates.size_bytes());
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(reinterpret_cast<const char*>(candidates.data()), candidates.size_bytes());
  return bytes;
}

bool BranchTargets::any_in(const ModuleSymbols& module, std::uint64_t entry) const {
  for (auto candidate = std::ranges::lower_bound(candidates_, entry + 1, {}, &Candidate::target);
       candidate != candidates_.end() && candidate->target - entry < kJumpSize; ++candidate) {
    if (is_branch(module, candidate->end, candidate->target)) return true;
  }
  // A short branch to bytes 1 to 4 ends at most 127 bytes before its target or 128 bytes after it.
  constexpr std::uint64_t kReach = 128;
  const std::uint64_t window = entry > kReach ? entry - kReach : 0;
  std::uint64_t first = window;
  auto code = module.code(window, 2 * kReach + kJumpSize + 1);
  if (code.empty()) {  // The entry is near the start of its segment.
    first = entry;
    code = module.code(entry, kReach + kJumpSize + 1);
  }
  for (std::size_t at = 0; at + 1 < code.size(); ++at) {
    if (!is_short_branch(std::to_integer<unsigned char>(code[at]))) continue;
    const std::uint64_t end = first + at + 2;
    const auto displacement =
        static_cast<signed char>(std::to_integer<unsigned char>(code[at + 1]));
    const std::uint64_t target = relative_target(end, displacement);
    if (target > entry && target - entry < kJumpSize && is_branch(module, end, target)) return true;
  }
  return false;
}

}  // namespace optrace

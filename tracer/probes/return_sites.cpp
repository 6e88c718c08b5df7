#include "tracer/probes/return_sites.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>
#include <unordered_map>

#include <Zydis/Zydis.h>

#include "tracer/elf/branch_targets.h"
#include "tracer/elf/function_jumps.h"
#include "tracer/elf/near_branches.h"
#include "tracer/elf/result_use.h"

namespace optrace {
namespace {

constexpr std::uint64_t kDirectSize = 5;  // E8 and a 4-byte displacement.
constexpr std::uint64_t kSlotSize = 6;    // FF 15 and a 4-byte displacement.

/// Returns the length of the call through a register or a pointer in memory at the start of
/// `code`, an FF that a ModRM byte follows: 0 if its operation is not a call, which is 2, or if the
/// pointer is at an address relative to rip.
std::size_t length_of_indirect_call(std::span<const std::byte> code) {
  constexpr std::size_t kShortest = 2;
  const auto modrm = std::to_integer<unsigned>(code[1]);
  const unsigned mode = modrm >> 6U;
  const unsigned base = modrm & 7U;
  constexpr std::size_t kDisplacement[] = {0, 1, 4, 0};  // Its size by mode.
  const bool relative = mode == 0 && base == 5;          // A slot names its function.
  const std::size_t index = mode != 3 && base == 4 ? 1 : 0;
  if ((modrm >> 3U & 7U) != 2 || relative) return 0;
  return kShortest + index + kDisplacement[mode];
}

/// Returns true for `test al, al`.
bool is_boolean_test(std::span<const std::byte> code) {
  return code.size() >= 2 && code[0] == std::byte{0x84} && code[1] == std::byte{0xC0};
}

class SiteFinder {
 public:
  SiteFinder(const ModuleSymbols& module, const ResultOf& result_of)
      : module_(module), result_of_(result_of) {}

  std::vector<ReturnSite> run() {
    module_.for_each_name([&](std::uint64_t address, std::string_view symbol) {
      if (const RecordedResult result = result_of_(symbol); result.bytes != 0)
        functions_.emplace(address, result);
    });
    module_.for_each_slot([&](std::uint64_t slot, std::string_view symbol) {
      if (const RecordedResult result = result_of_(symbol); result.bytes != 0)
        slots_.emplace(slot, result);
    });
    if (functions_.empty() && slots_.empty()) return {};
    for (const auto& [address, code] : module_.executable_segments()) {
      find_direct(address, code);
      find_indirect(address, code);
    }
    std::ranges::sort(candidates_, {}, &ReturnSite::address);
    const auto repeated = std::ranges::unique(candidates_, {}, &ReturnSite::address);
    candidates_.erase(repeated.begin(), repeated.end());
    return confirmed();
  }

 private:
  void find_direct(std::uint64_t start, std::span<const std::byte> code) {
    for_each_near_branch(code, [&](std::size_t opcode) {
      if (code[opcode] != std::byte{0xE8} || code.size() - opcode < kDirectSize) return;
      std::int32_t distance = 0;
      std::memcpy(&distance, &code[opcode + 1], sizeof distance);
      const std::uint64_t end = start + opcode + kDirectSize;
      const std::uint64_t target = end + static_cast<std::uint64_t>(std::int64_t{distance});
      add(end, result_at(target, end));
    });
  }

  void add(std::uint64_t return_address, const RecordedResult& result) {
    if (result.bytes != 0 && (!result.if_tested || tests_result(module_, return_address)))
      candidates_.push_back({return_address, result, false});
  }

  /// Returns the result of `target`: a wanted function, or a stub that jumps to one.
  RecordedResult result_at(std::uint64_t target, std::uint64_t return_address) {
    if (const auto known = functions_.find(target); known != functions_.end()) return known->second;
    if (slots_.empty()) return {};
    const auto [known, is_new] = stubs_.try_emplace(target);
    if (is_new) {
      const auto call = call_target_before(module_, return_address);
      if (call && !call->name.empty()) known->second = result_of_(call->name);
    }
    return known->second;
  }

  /// Finds the calls through slots of the global offset table, and those through registers and
  /// other pointers, also of virtual functions, whose result is tested at once like a boolean. The
  /// latter name no function: the value is recorded only if the call enters a function with a
  /// probe, which tells the type.
  void find_indirect(std::uint64_t start, std::span<const std::byte> code) {
    for (std::size_t at = 0; at + kSlotSize <= code.size(); ++at) {
      const void* const hit = std::memchr(&code[at], 0xFF, code.size() - kSlotSize + 1 - at);
      if (hit == nullptr) return;
      at = static_cast<std::size_t>(static_cast<const std::byte*>(hit) - code.data());
      if (code[at + 1] == std::byte{0x15}) {
        std::int32_t distance = 0;
        std::memcpy(&distance, &code[at + 2], sizeof distance);
        const std::uint64_t end = start + at + kSlotSize;
        const auto slot = slots_.find(end + static_cast<std::uint64_t>(std::int64_t{distance}));
        if (slot != slots_.end()) add(end, slot->second);
        continue;
      }
      const std::size_t end = at + length_of_indirect_call(code.subspan(at));
      if (end != at && is_boolean_test(code.subspan(std::min(end, code.size()))))
        candidates_.push_back({start + end, {.bytes = 1}, false});
    }
  }

  /// Returns the candidates, which are in order, that end a call of the function that contains
  /// them: the same bytes may be a part of another instruction.
  std::vector<ReturnSite> confirmed() const {
    std::vector<ReturnSite> found;
    for (std::size_t next = 0; next < candidates_.size();) {
      const auto piece = module_.find_piece(candidates_[next].address - 1);
      const std::uint64_t end = piece ? piece->address + piece->size : 0;
      std::size_t last = next;
      while (last < candidates_.size() && candidates_[last].address <= end) ++last;
      if (last == next) {
        ++next;
        continue;
      }
      confirm(*piece, std::span(candidates_).subspan(next, last - next), found);
      next = last;
    }
    forbid_jumps_at_targets(found);
    return found;
  }

  /// Adds those of `candidates`, which are in order, that follow a call of this piece of code.
  void confirm(const NativeFunction& piece, std::span<const ReturnSite> candidates,
               std::vector<ReturnSite>& found) const {
    ZydisDecoder decoder;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    const std::size_t first = found.size();
    std::vector<std::uint64_t> targets;
    std::vector<std::uint64_t> ends;  // Of instructions after which execution does not go on.
    bool any_target = false;          // A jump whose targets the code does not show.
    std::uint64_t at = piece.address;
    for (auto code = module_.code(at, piece.size); !code.empty();) {
      ZydisDecodedInstruction instruction;
      if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, nullptr, code.data(), code.size(),
                                                      &instruction))) {
        any_target = true;
        break;
      }
      at += instruction.length;
      code = code.subspan(instruction.length);
      const bool is_call = instruction.mnemonic == ZYDIS_MNEMONIC_CALL;
      const bool is_jump = instruction.mnemonic == ZYDIS_MNEMONIC_JMP;
      if (instruction.raw.imm[0].is_relative != 0 && !is_call)
        targets.push_back(at + static_cast<std::uint64_t>(instruction.raw.imm[0].value.s));
      else if (is_jump && (instruction.raw.modrm.mod != 0 || instruction.raw.modrm.rm != 5))
        any_target = true;
      if (is_jump || instruction.mnemonic == ZYDIS_MNEMONIC_RET ||
          instruction.mnemonic == ZYDIS_MNEMONIC_UD2 || instruction.mnemonic == ZYDIS_MNEMONIC_HLT)
        ends.push_back(at);
      // After a call at the end of a piece, which does not return, other code follows.
      const auto candidate = std::ranges::lower_bound(candidates, at, {}, &ReturnSite::address);
      if (is_call && !code.empty() && candidate != candidates.end() && candidate->address == at)
        found.push_back(*candidate);
    }
    std::ranges::sort(targets);
    const auto any_in = [](const std::vector<std::uint64_t>& sorted, std::uint64_t from,
                           std::uint64_t to) {
      const auto found_at = std::ranges::lower_bound(sorted, from);
      return found_at != sorted.end() && *found_at < to;
    };
    for (std::size_t i = first; i < found.size(); ++i) {
      const std::uint64_t site = found[i].address;
      found[i].room_for_jump = !any_target && site + kJumpSize <= piece.address + piece.size &&
                               !any_in(targets, site + 1, site + kJumpSize) &&
                               !any_in(ends, site + 1, site + kJumpSize);
    }
  }

  /// Takes the room from sites into which a near branch may lead from elsewhere, such as the
  /// `.cold` part of the function. Any bytes count that look like one.
  void forbid_jumps_at_targets(std::vector<ReturnSite>& sites) const {
    for (const auto& [address, code] : module_.executable_segments()) {
      for_each_near_branch(code, [&, start = address, bytes = code](std::size_t opcode) {
        std::int32_t displacement = 0;
        if (bytes.size() - opcode - 1 < sizeof displacement) return;
        std::memcpy(&displacement, bytes.data() + opcode + 1, sizeof displacement);
        const std::uint64_t target = start + opcode + 1 + sizeof displacement +
                                     static_cast<std::uint64_t>(std::int64_t{displacement});
        const auto after = std::ranges::lower_bound(sites, target, {}, &ReturnSite::address);
        if (after == sites.begin()) return;
        ReturnSite& site = *std::prev(after);
        if (target - site.address < kJumpSize) site.room_for_jump = false;
      });
    }
  }

  const ModuleSymbols& module_;
  const ResultOf& result_of_;
  std::unordered_map<std::uint64_t, RecordedResult> functions_;
  std::unordered_map<std::uint64_t, RecordedResult> slots_;
  std::unordered_map<std::uint64_t, RecordedResult> stubs_;
  std::vector<ReturnSite> candidates_;
};

}  // namespace

std::vector<ReturnSite> find_return_sites(const ModuleSymbols& module, const ResultOf& result_of) {
  return SiteFinder(module, result_of).run();
}

}  // namespace optrace

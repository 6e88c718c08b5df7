#include "tracer/probes/return_sites.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include <Zydis/Zydis.h>

#include "platform/elf/address_filter.h"
#include "platform/elf/branch_targets.h"
#include "platform/elf/function_jumps.h"
#include "platform/elf/near_branches.h"
#include "platform/elf/result_use.h"

namespace optrace {
namespace {

constexpr std::uint64_t kDirectSize = 5;  // E8 and a 4-byte displacement.
constexpr std::uint64_t kSlotSize = 6;    // FF 15 and a 4-byte displacement.

constexpr std::byte kCallSlot{0x15};  // The ModRM bytes of a call and a jump through a slot.
constexpr std::byte kJumpSlot{0x25};

/// Returns the length of the call through a register or a pointer in memory, not at an address
/// relative to rip, that has this ModRM byte.
std::size_t length_of_indirect_call(std::byte modrm_byte) {
  constexpr std::size_t kShortest = 2;
  const auto modrm = std::to_integer<unsigned>(modrm_byte);
  const unsigned mode = modrm >> 6U;
  const unsigned base = modrm & 7U;
  constexpr std::size_t kDisplacement[] = {0, 1, 4, 0};  // Its size by mode.
  const std::size_t index = mode != 3 && base == 4 ? 1 : 0;
  return kShortest + index + kDisplacement[mode];
}

/// Returns true for `test al, al`.
bool is_boolean_test(std::span<const std::byte> code) {
  return code.size() >= 2 && code[0] == std::byte{0x84} && code[1] == std::byte{0xC0};
}

/// Returns the address that a 4-byte displacement at `offset` of the code at `start` refers to,
/// which is the last part of an instruction.
std::uint64_t address_relative_to_end(std::uint64_t start, std::span<const std::byte> code,
                                      std::size_t offset) {
  std::int32_t displacement = 0;
  std::memcpy(&displacement, &code[offset], sizeof displacement);
  return start + offset + sizeof displacement +
         static_cast<std::uint64_t>(std::int64_t{displacement});
}

/// The results of named functions. Each is looked up when it is first needed, because most of the
/// functions are never called by their names.
class Results {
 public:
  /// `names` is sorted by address.
  Results(std::vector<NamedAddress> names, const ResultOf& result_of)
      : names_(std::move(names)),
        filter_(names_.size()),
        result_of_(result_of),
        known_(names_.size()) {
    for (const NamedAddress& name : names_) filter_.add(name.address);
  }

  /// Returns true if any function has a result.
  bool any() const {
    return std::ranges::any_of(
        names_, [&](const NamedAddress& name) { return result_of_(name.symbol).bytes != 0; });
  }

  /// Returns the names at `address`.
  std::span<const NamedAddress> names(std::uint64_t address) const {
    if (!filter_.may_contain(address)) return {};
    const auto found = std::ranges::equal_range(names_, address, {}, &NamedAddress::address);
    return {found.begin(), found.end()};
  }

  /// Returns the result of the function at `address`, by the first of its names that has one.
  RecordedResult at(std::uint64_t address) {
    const std::span<const NamedAddress> names_there = names(address);
    if (names_there.empty()) return {};
    const auto position = static_cast<std::size_t>(names_there.data() - names_.data());
    std::optional<RecordedResult>& known = known_[position];
    if (!known) {
      known.emplace();
      for (const NamedAddress& name : names_there)
        if (known->bytes == 0) known = result_of_(name.symbol);
    }
    return *known;
  }

 private:
  std::vector<NamedAddress> names_;
  AddressFilter filter_;
  const ResultOf& result_of_;
  std::vector<std::optional<RecordedResult>> known_;  ///< By the position of the first name.
};

class SiteFinder {
 public:
  SiteFinder(const ModuleSymbols& module, std::vector<NamedAddress> functions,
             std::vector<NamedAddress> slots, const ResultOf& result_of)
      : module_(module),
        functions_(std::move(functions), result_of),
        slots_(std::move(slots), result_of),
        result_of_(result_of) {}

  std::vector<ReturnSite> run() {
    if (!functions_.any() && !slots_.any()) return {};
    for (const auto& [address, code] : module_.executable_segments()) find_indirect(address, code);
    std::ranges::stable_sort(stubs_, {}, &NamedAddress::address);
    Results stubs(std::move(stubs_), result_of_);
    for (const auto& [address, code] : module_.executable_segments())
      find_direct(address, code, stubs);
    std::ranges::sort(candidates_, {}, &ReturnSite::address);
    const auto repeated = std::ranges::unique(candidates_, {}, &ReturnSite::address);
    candidates_.erase(repeated.begin(), repeated.end());
    return confirmed();
  }

 private:
  void add(std::uint64_t return_address, const RecordedResult& result) {
    if (result.bytes != 0 && (!result.if_tested || tests_result(module_, return_address)))
      candidates_.push_back({return_address, result, false});
  }

  /// Finds the calls through slots of the global offset table, and those through registers and
  /// other pointers, also of virtual functions, whose result is tested at once like a boolean. The
  /// latter name no function: the value is recorded only if the call enters a function with a
  /// probe, which tells the type. Finds the stubs for find_direct() too.
  void find_indirect(std::uint64_t start, std::span<const std::byte> code) {
    for_each_indirect_branch(code, [&](std::size_t opcode) {
      const std::byte modrm = code[opcode + 1];
      const bool through_slot = modrm == kCallSlot || modrm == kJumpSlot;
      if (through_slot && code.size() - opcode < kSlotSize) return;
      if (modrm == kJumpSlot) {
        find_stubs(start + opcode, address_relative_to_end(start, code, opcode + 2));
      } else if (modrm == kCallSlot) {
        add(start + opcode + kSlotSize,
            slots_.at(address_relative_to_end(start, code, opcode + 2)));
      } else {
        const std::size_t end = opcode + length_of_indirect_call(modrm);
        if (is_boolean_test(code.subspan(std::min(end, code.size()))))
          candidates_.push_back({start + end, {.bytes = 1}, false});
      }
    });
  }

  /// Records the addresses from which a call reaches a jump through `slot`, if that slot is one of
  /// the searched ones.
  void find_stubs(std::uint64_t jump, std::uint64_t slot) {
    const std::span<const NamedAddress> names = slots_.names(slot);
    if (names.empty()) return;
    const std::uint64_t furthest = std::min(jump, kMaxStubSize - kSlotSize);
    for (std::uint64_t before = 0; before <= furthest; ++before)
      if (slot_of_stub(module_, jump - before) == slot)
        stubs_.push_back({jump - before, names.front().symbol});
  }

  /// Finds the direct calls of functions and of stubs that jump to one.
  void find_direct(std::uint64_t start, std::span<const std::byte> code, Results& stubs) {
    for_each_direct_call(code, [&](std::size_t opcode) {
      if (code.size() - opcode < kDirectSize) return;
      const std::uint64_t target = address_relative_to_end(start, code, opcode + 1);
      RecordedResult result = functions_.at(target);
      if (result.bytes == 0) result = stubs.at(target);
      add(start + opcode + kDirectSize, result);
    });
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
      if (!piece || last == next) {
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
    ZydisDecoderEnableMode(&decoder, ZYDIS_DECODER_MODE_MINIMAL, ZYAN_TRUE);  // Raw parts suffice.
    const std::size_t first = found.size();
    auto candidate = candidates.begin();
    std::vector<std::uint64_t> targets;
    std::vector<std::uint64_t> ends;  // Of instructions after which execution does not go on.
    bool any_target = false;          // A jump whose targets the code does not show.
    std::uint64_t at = piece.address;
    for (auto code = module_.code(at, piece.size); !code.empty();) {
      // What follows the last candidate only matters for the room of the sites.
      while (candidate != candidates.end() && candidate->address <= at) ++candidate;
      if (candidate == candidates.end() && (any_target || found.size() == first)) break;
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
    AddressFilter bytes_of_jumps(2 * sites.size());
    for (const ReturnSite& site : sites) {
      bytes_of_jumps.add(site.address + 1);
      bytes_of_jumps.add(site.address + kJumpSize - 1);
    }
    for (const auto& [address, code] : module_.executable_segments()) {
      for_each_near_branch(code, [&, start = address, bytes = code](std::size_t opcode) {
        if (bytes.size() - opcode < kDirectSize) return;
        const std::uint64_t target = address_relative_to_end(start, bytes, opcode + 1);
        if (!bytes_of_jumps.may_contain(target)) return;
        const auto after = std::ranges::lower_bound(sites, target, {}, &ReturnSite::address);
        if (after == sites.begin()) return;
        ReturnSite& site = *std::prev(after);
        if (target - site.address < kJumpSize) site.room_for_jump = false;
      });
    }
  }

  const ModuleSymbols& module_;
  Results functions_;
  Results slots_;
  std::vector<NamedAddress> stubs_;  ///< Named by the functions that they jump to.
  const ResultOf& result_of_;
  std::vector<ReturnSite> candidates_;
};

}  // namespace

std::vector<ReturnSite> find_return_sites(const ModuleSymbols& module,
                                          std::vector<NamedAddress> functions,
                                          std::vector<NamedAddress> slots,
                                          const ResultOf& result_of) {
  return SiteFinder(module, std::move(functions), std::move(slots), result_of).run();
}

}  // namespace optrace

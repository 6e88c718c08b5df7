// Built with -mgeneral-regs-only, as callers.cpp.

#include "target/agent/callers/stack_frames.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include "target/agent/callers/callers.h"
#include "target/agent/probes/trap_table.h"

namespace optrace::agent {
namespace {

// Cached rule for a return address.
struct Site {
  std::uint64_t address;  // 0: free; with kBusy: being filled.
  FrameRule rule;
  // The FrameKind, with the version of the probes for which it holds above; accessed atomically.
  std::uint32_t kind;
};
constexpr std::uint32_t kKinds = 4;
constexpr std::uint64_t kBusy = std::uint64_t{1} << 63;
constexpr std::uint64_t kSites = 1 << 16;
constexpr std::uint64_t kMaxProbes = 32;  // For one address in the table.

Site* sites = nullptr;
std::uint64_t main_stack_end = 0;

// Sanity limits: the largest frame, and the greatest distance from a stack address to the end of
// its stack.
constexpr std::uint64_t kMaxFrame = 64ULL << 20;
constexpr std::uint64_t kMaxStack = 1ULL << 30;

// Ranges of code. They are added one by one while any number of threads look them up.
template <std::uint32_t kMax>
class CodeRanges {
 public:
  bool contain(std::uint64_t address) const {
    const std::uint32_t count = __atomic_load_n(&count_, __ATOMIC_ACQUIRE);
    for (std::uint32_t i = 0; i < count; ++i)
      if (address >= ranges_[i].first && address < ranges_[i].last) return true;
    return false;
  }

  void add(std::uint64_t first, std::uint64_t last) {
    for (std::uint32_t i = 0; i < count_; ++i)
      if (ranges_[i].first == first && ranges_[i].last == last) return;
    if (count_ < kMax) {
      ranges_[count_] = {first, last};
      __atomic_store_n(&count_, count_ + 1, __ATOMIC_RELEASE);
      change_traps_version();
    }
  }

 private:
  struct Range {
    std::uint64_t first, last;
  };
  Range ranges_[kMax];
  std::uint32_t count_ = 0;  // Accessed atomically.
};
CodeRanges<8> loops;  // The evaluation loop.
CodeRanges<1024> probed_modules;

FrameKind kind_of(std::uint64_t return_address, const FrameRule& rule) {
  if (rule.function != 0 && find_trap(rule.function) != 0) return FrameKind::probed;
  if (loops.contain(return_address - 1)) return FrameKind::loop;
  return probed_modules.contain(return_address - 1) ? FrameKind::other : FrameKind::outside;
}

KnownFrame known_frame_of(Site& site, std::uint64_t return_address) {
  const std::uint32_t version = traps_version();
  const std::uint32_t cached = __atomic_load_n(&site.kind, __ATOMIC_RELAXED);
  if (cached / kKinds == version % (UINT32_MAX / kKinds))
    return {site.rule, static_cast<FrameKind>(cached % kKinds)};
  const FrameKind kind = kind_of(return_address, site.rule);
  __atomic_store_n(&site.kind,
                   version % (UINT32_MAX / kKinds) * kKinds + static_cast<std::uint32_t>(kind),
                   __ATOMIC_RELAXED);
  return {site.rule, kind};
}

void restore_frame_pointer(Frame& frame, const FrameRule& rule, std::uint64_t frame_address,
                           std::uint64_t end) {
  std::uint64_t from = 0;
  switch (rule.saved) {
    case SavedFramePointer::same:
      return;
    case SavedFramePointer::at_cfa:
      from = frame_address + static_cast<std::uint64_t>(std::int64_t{rule.saved_offset});
      break;
    case SavedFramePointer::at_frame_pointer:
      from = frame.frame_pointer + static_cast<std::uint64_t>(std::int64_t{rule.saved_offset});
      break;
    default:
      break;
  }
  const bool sound = (frame.frame_pointer_known || rule.saved == SavedFramePointer::at_cfa) &&
                     from % 8 == 0 && from >= frame.stack_pointer && from <= end - 8;
  frame.frame_pointer_known = sound;
  frame.frame_pointer = sound ? read_word(from) : 0;
}

}  // namespace

bool make_frame_cache() {
  if (const auto* const end = static_cast<void**>(dlsym(RTLD_DEFAULT, "__libc_stack_end")))
    main_stack_end = reinterpret_cast<std::uint64_t>(*end);
  void* const memory = mmap(nullptr, kSites * sizeof(Site), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  sites = memory == MAP_FAILED ? nullptr : static_cast<Site*>(memory);
  return sites != nullptr;
}

void add_evaluation_loop(std::uint64_t first, std::uint64_t last) {
  loops.add(first, last);
}

void add_probed_module(std::uint64_t first, std::uint64_t last) {
  probed_modules.add(first, last);
}

std::uint64_t stack_end_above(std::uint64_t slot) {
  if (slot < main_stack_end && main_stack_end - slot < kMaxStack) return main_stack_end;
  // In glibc, a thread's control block, whose address is at fs:0, lies above its stack.
  std::uint64_t control_block = 0;  // NOLINT(misc-const-correctness): The assembly stores it.
  asm("movq %%fs:0, %0" : "=r"(control_block));
  return slot < control_block && control_block - slot < kMaxStack ? control_block : 0;
}

KnownFrame frame_at(std::uint64_t return_address) {
  std::uint64_t place = hash_of(return_address);
  Site* free_site = nullptr;
  for (std::uint64_t i = 0; i < kMaxProbes; ++i, ++place) {
    Site& site = sites[place & (kSites - 1)];
    const std::uint64_t found = __atomic_load_n(&site.address, __ATOMIC_ACQUIRE);
    if (found == return_address) return known_frame_of(site, return_address);
    if (found == 0) {
      free_site = &site;
      break;
    }
  }
  FrameRule rule;
  // A return address may lie after the function's end, if the called function never returns.
  const bool known = find_frame_rule(return_address - 1, rule);
  std::uint64_t nobody = 0;
  if (known && free_site != nullptr &&
      __atomic_compare_exchange_n(&free_site->address, &nobody, kBusy, false, __ATOMIC_ACQUIRE,
                                  __ATOMIC_RELAXED)) {
    free_site->rule = rule;
    free_site->kind = 0;  // Of no version.
    __atomic_store_n(&free_site->address, return_address, __ATOMIC_RELEASE);
  }
  return {rule, kind_of(return_address, rule)};
}

Frame frame_of_caller(std::uint64_t slot, std::uint64_t frame_pointer) {
  return {slot + 8, frame_pointer, true, read_word(slot)};
}

std::uint64_t address_of_frame(const Frame& frame, const FrameRule& rule, std::uint64_t end) {
  const auto at = [](std::uint64_t base, std::int32_t offset) {
    return base + static_cast<std::uint64_t>(std::int64_t{offset});
  };
  const auto on_stack = [&](std::uint64_t address) {
    return address % 8 == 0 && address >= frame.stack_pointer && address <= end - 8;
  };
  std::uint64_t address = 0;
  switch (rule.base) {
    case FrameBase::stack_pointer:
      address = at(frame.stack_pointer, rule.base_offset);
      break;
    case FrameBase::frame_pointer:
      address = frame.frame_pointer_known ? at(frame.frame_pointer, rule.base_offset) : 0;
      break;
    case FrameBase::frame_pointer_target: {
      const std::uint64_t target =
          frame.frame_pointer_known ? at(frame.frame_pointer, rule.base_offset) : 0;
      address = on_stack(target) ? read_word(target) : 0;
      break;
    }
    default:
      return 0;
  }
  const bool sound = address > frame.stack_pointer && address - frame.stack_pointer < kMaxFrame &&
                     on_stack(address - 8);
  return sound ? address : 0;
}

void leave_frame(Frame& frame, const FrameRule& rule, std::uint64_t frame_address,
                 std::uint64_t end) {
  restore_frame_pointer(frame, rule, frame_address, end);
  frame.stack_pointer = frame_address;
  frame.return_address = read_word(frame_address - 8);
}

}  // namespace optrace::agent

// Built with -mgeneral-regs-only, because it runs in the same context as optrace_agent_refill
// (event_buffer.cpp). Takes no lock and allocates nothing.

#include "tracer/in_process/agent/callers/callers.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include "tracer/in_process/agent/callers/frame_modules.h"
#include "tracer/in_process/agent/callers/frame_rules.h"
#include "tracer/in_process/agent/probes/trap_table.h"
#include "tracer/in_process/agent/recording/event_buffer.h"

extern "C" {
/// Hash table of return addresses in functions with a probe; the hash uses their low 32 bits. The
/// record routine reads it.
__attribute__((visibility("hidden"))) std::uint64_t* optrace_agent_probed_returns = nullptr;
}

namespace optrace::agent {

namespace {

// Must match the assembly in event_buffer.cpp.
constexpr std::uint64_t kProbedReturns = 1 << 16;

std::uint64_t place_of_return(std::uint64_t address) {
  return (address ^ address >> 16) & (kProbedReturns - 1);
}

// Cached rule for a return address.
struct Site {
  std::uint64_t address;  // 0: free; with kBusy: being filled.
  FrameRule rule;
};
constexpr std::uint64_t kBusy = std::uint64_t{1} << 63;
constexpr std::uint64_t kSites = 1 << 16;
constexpr std::uint64_t kMaxProbes = 32;  // For one address in the table.

Site* sites = nullptr;
bool recorded = true;
bool any_noted = false;  // True if optrace_agent_probed_returns has entries.
std::uint64_t main_stack_end = 0;

// Maximum number of consecutive frames without a probe; a longer chain is cut off.
constexpr std::uint32_t kMaxCallers = 64;
// Sanity limits: the largest frame, and the greatest distance from a stack address to the end of
// its stack.
constexpr std::uint64_t kMaxFrame = 64ULL << 20;
constexpr std::uint64_t kMaxStack = 1ULL << 30;

// Reads from the thread's stack.
std::uint64_t read_word(std::uint64_t address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr,clang-analyzer-core.NullDereference)
  return *reinterpret_cast<const std::uint64_t*>(address);
}

std::uint64_t hash_of(std::uint64_t address) {
  return (address * 0x9E37'79B9'7F4A'7C15ULL) >> 40;
}

// Returns the end of the thread's stack, or 0 if unknown. In glibc, a thread's control block, whose
// address is at fs:0, lies above its stack.
std::uint64_t stack_end_above(std::uint64_t slot) {
  if (slot < main_stack_end && main_stack_end - slot < kMaxStack) {
    return main_stack_end;
  }
  std::uint64_t control_block = 0;  // NOLINT(misc-const-correctness): The assembly stores it.
  asm("movq %%fs:0, %0" : "=r"(control_block));
  return slot < control_block && control_block - slot < kMaxStack ? control_block : 0;
}

FrameRule rule_at(std::uint64_t return_address) {
  std::uint64_t place = hash_of(return_address);
  Site* free_site = nullptr;
  for (std::uint64_t i = 0; i < kMaxProbes; ++i, ++place) {
    Site& site = sites[place & (kSites - 1)];
    const std::uint64_t found = __atomic_load_n(&site.address, __ATOMIC_ACQUIRE);
    if (found == return_address) {
      return site.rule;
    }
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
    __atomic_store_n(&free_site->address, return_address, __ATOMIC_RELEASE);
  }
  return rule;
}

// Frame of a function that waits for the call that returns to `return_address`.
struct Frame {
  std::uint64_t stack_pointer;  // The value after the call has returned.
  std::uint64_t frame_pointer;
  bool frame_pointer_known;
  std::uint64_t return_address;
};

// A caller without a probe.
struct Caller {
  std::uint64_t inside;          // Return address inside this caller.
  std::uint64_t slot;            // Address of this caller's own return slot.
  std::uint64_t return_address;  // Value of that slot; 0: no caller.
};

// Returns the canonical frame address, or 0.
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

// Fills `callers`, innermost first. Returns their number.
std::uint32_t find_callers(std::uint64_t slot, std::uint64_t frame_pointer,
                           Caller (&callers)[kMaxCallers]) {
  const std::uint64_t end = stack_end_above(slot);
  Frame frame{slot + 8, frame_pointer, true, read_word(slot)};
  std::uint32_t count = 0;
  while (count < kMaxCallers) {
    const FrameRule rule = rule_at(frame.return_address);
    if (rule.function != 0 && find_trap(rule.function) != 0) {
      if (count == 0) {
        __atomic_store_n(&any_noted, true, __ATOMIC_RELAXED);
        __atomic_store_n(&optrace_agent_probed_returns[place_of_return(frame.return_address)],
                         frame.return_address, __ATOMIC_RELAXED);
      }
      break;
    }
    if (rule.base == FrameBase::outermost) {
      callers[count++] = {frame.return_address, frame.stack_pointer, 0};
      break;
    }
    const std::uint64_t frame_address = end == 0 ? 0 : address_of_frame(frame, rule, end);
    if (frame_address == 0) {
      break;
    }
    restore_frame_pointer(frame, rule, frame_address, end);
    callers[count] = {frame.return_address, frame_address - 8, read_word(frame_address - 8)};
    frame.stack_pointer = frame_address;
    frame.return_address = callers[count++].return_address;
    if (frame.return_address == 0) {
      break;
    }
  }
  return count;
}

std::uint64_t* allocate(std::uint64_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::uint64_t*>(memory);
}

}  // namespace

bool make_caller_tables() {
  if (sites != nullptr) {
    return true;
  }
  prepare_module_lookup();
  if (const auto* const end = static_cast<void**>(dlsym(RTLD_DEFAULT, "__libc_stack_end"))) {
    main_stack_end = reinterpret_cast<std::uint64_t>(*end);
  }
  optrace_agent_probed_returns = allocate(kProbedReturns * sizeof(std::uint64_t));
  sites = reinterpret_cast<Site*>(allocate(kSites * sizeof(Site)));
  return sites != nullptr && optrace_agent_probed_returns != nullptr;
}

void record_callers(bool on) {
  recorded = on;
}

void forget_callers() {
  if (!__atomic_exchange_n(&any_noted, false, __ATOMIC_RELAXED)) {
    return;
  }
  for (std::uint64_t i = 0; i < kProbedReturns; ++i) {
    if (optrace_agent_probed_returns[i] != 0) {
      __atomic_store_n(&optrace_agent_probed_returns[i], 0, __ATOMIC_RELAXED);
    }
  }
}

}  // namespace optrace::agent

void optrace_agent_note_callers(std::uint64_t slot, std::uint64_t frame_pointer,
                                std::uint32_t round) {
  using namespace optrace::agent;
  if (!recorded) {
    return;
  }
  Caller callers[kMaxCallers];
  for (std::uint32_t i = find_callers(slot, frame_pointer, callers); i-- > 0;) {
    const Caller& caller = callers[i];
    record_event(round,
                 optrace::recording::kCaller | static_cast<std::uint32_t>(caller.inside >> 32),
                 static_cast<std::uint32_t>(caller.inside), caller.slot, caller.return_address);
  }
}

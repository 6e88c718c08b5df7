#include "target/agent/probes/probe_slots.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "target/agent/probes/near_memory.h"
#include "target/agent/recording/event_buffer.h"

namespace optrace::agent {
namespace {

// A slot records the hit and then executes the displaced instructions.
//
//   lea  rsp, [rsp - 128]      skip the red zone; lea preserves the flags
//   push id
//   call [rip + record]        the slab's first words are the record routines' addresses
//   lea  rsp, [rsp + 136]      (`ret 136` in the routine would be shorter, but three times slower)
//   ...                        from the plan: displaced instructions and the jump back
constexpr std::uint8_t kStepOverRedZone[] = {0x48, 0x8d, 0x64, 0x24, 0x80};
constexpr std::uint8_t kPush = 0x68;
constexpr std::uint8_t kCallThrough[] = {0xff, 0x15};
constexpr std::uint8_t kStepBack[] = {0x48, 0x8d, 0xa4, 0x24, 0x88, 0x00, 0x00, 0x00};
constexpr std::uint32_t kPreludeSize =
    sizeof(kStepOverRedZone) + 1 + 4 + sizeof(kCallThrough) + 4 + sizeof(kStepBack);
constexpr std::uint32_t kSlotAlignment = 64;
constexpr std::uint64_t kFirstSlot = 64;       // After the record routines' addresses.
constexpr std::uint64_t kReach = 0x7fff'f000;  // Maximum 32-bit displacement minus a page.

// The jump back at the end of most slots: the relative jump from the plan or, if that does not
// reach, an indirect jump through the address that follows it.
constexpr std::uint8_t kJumpBack = 0xe9;
constexpr std::uint32_t kJumpBackSize = 5;
constexpr std::uint8_t kFarJump[] = {0xff, 0x25, 0x00, 0x00, 0x00, 0x00};
constexpr std::uint32_t kFarJumpSize = sizeof(kFarJump) + sizeof(std::uint64_t);

template <std::size_t size>
std::uint8_t* put(std::uint8_t* at, const std::uint8_t (&bytes)[size]) {
  std::memcpy(at, bytes, size);
  return at + size;
}

template <typename T>
std::uint8_t* put_value(std::uint8_t* at, T value) {
  std::memcpy(at, &value, sizeof(value));
  return at + sizeof(value);
}

bool fits_32_bits(std::int64_t value) {
  return value >= INT32_MIN && value <= INT32_MAX;
}

// Returns the place of a kind's record routine among the words at the start of a slab.
std::size_t place_of_routine(plan::ProbeKind kind) {
  return plan::is_return(kind) ? 2 : static_cast<std::size_t>(kind);
}

void write_prelude(std::uint8_t* at, const std::uint8_t* slab, std::uint32_t id,
                   plan::ProbeKind kind) {
  const std::uint8_t* const routine = slab + place_of_routine(kind) * sizeof(std::uint64_t);
  at = put(at, kStepOverRedZone);
  *at++ = kPush;
  at = put_value(at, id);
  at = put(at, kCallThrough);
  at = put_value(at, static_cast<std::int32_t>(routine - (at + 4)));
  put(at, kStepBack);
}

bool is_jump_back(const plan::Probe& probe, const plan::Fixup& fixup, const std::uint8_t* code) {
  return probe.code_size >= kJumpBackSize && fixup.kind == plan::FixupKind::relative32 &&
         fixup.addend == 0 && fixup.offset == probe.code_size - sizeof(std::int32_t) &&
         code[probe.code_size - kJumpBackSize] == kJumpBack;
}

bool apply_fixups(const PlanView& plan, const plan::Probe& probe, std::uint64_t bias, bool far,
                  std::uint8_t* code) {
  for (std::uint32_t i = 0; i < probe.fixup_count; ++i) {
    const plan::Fixup& fixup = plan.fixups[probe.first_fixup + i];
    std::uint8_t* const at = code + fixup.offset;
    const std::uint64_t target = fixup.target + bias;
    if (fixup.kind == plan::FixupKind::absolute64) {
      put_value(at, target);
      continue;
    }
    if (far && is_jump_back(probe, fixup, code)) {
      put_value(put(at - 1, kFarJump), target);
      continue;
    }
    const auto distance = static_cast<std::int64_t>(
        target - (reinterpret_cast<std::uint64_t>(at) + 4) - fixup.addend);
    if (!fits_32_bits(distance)) return false;
    put_value(at, static_cast<std::int32_t>(distance));
  }
  return true;
}

// Makes the text be accessed in address order, and a probe's neighbour easy to find.
void sort_by_address(const PlanView& plan, const PageArray<std::uint32_t>& by_address) {
  const auto lower = [&plan](std::uint32_t a, std::uint32_t b) {
    return plan.probes[a].address < plan.probes[b].address;
  };
  std::uint32_t* const first = by_address.data;
  std::uint32_t* const last = first + plan.header->probe_count;
  std::iota(first, last, 0U);
  if (!std::is_sorted(first, last, lower)) std::sort(first, last, lower);
}

std::uint64_t slot_size(const plan::Probe& probe, bool far) {
  const std::uint64_t code_size = probe.code_size + (far ? kFarJumpSize - kJumpBackSize : 0);
  return (kPreludeSize + code_size + kSlotAlignment - 1) & ~std::uint64_t{kSlotAlignment - 1};
}

// Returns the size of a slab in bytes, or 0 if offsets in it would not fit 32 bits.
std::uint64_t slab_size(const PlanView& plan, bool far) {
  std::uint64_t size = kFirstSlot;
  for (std::uint32_t i = 0; i < plan.header->probe_count; ++i)
    size += slot_size(plan.probes[i], far);
  size = page_ceiling(size);
  if (size > kWorthHugePages) size = (size + kHugePage - 1) & ~(kHugePage - 1);
  return size > UINT32_MAX ? 0 : size;
}

// Maps memory from which all of [first, last) is within 32-bit reach.
std::uint8_t* map_in_reach(std::uint64_t first, std::uint64_t last, std::uint64_t size) {
  const std::uint64_t lowest = last > kReach ? last - kReach : 0;
  const std::uint64_t highest = first + kReach;
  return map_between(lowest, highest, first, size);
}

}  // namespace

void Slab::release() {
  if (memory != nullptr) munmap(memory, size);
  memory = nullptr;
  size = 0;
  slots.release();
  by_address.release();
}

int write_slots(const PlanView& plan, const LoadedModule& module, std::uint32_t first_id,
                Slab& slab) {
  const std::uint32_t probes = plan.header->probe_count;
  std::uint64_t size = slab_size(plan, false);
  if (size == 0 || !slab.slots.allocate(probes) || !slab.by_address.allocate(probes)) {
    slab.release();
    return -ENOMEM;
  }
  sort_by_address(plan, slab.by_address);
  // Displaced code may refer to the module's data. If no memory reaches all of the module, use
  // memory that reaches the text, which is all that most displaced code refers to.
  slab.memory = map_in_reach(module.first, module.last, size);
  for (int i = 0; i < module.text_count && slab.memory == nullptr; ++i)
    slab.memory = map_in_reach(module.text[i].first, module.text[i].last, size);
  const bool far = slab.memory == nullptr;
  if (far) {  // Any memory will do for int3 probes whose code needs no reach.
    size = slab_size(plan, true);
    slab.memory = size == 0 ? nullptr : map_between(0, UINT64_MAX, module.last, size);
  }
  if (slab.memory == nullptr) {
    slab.release();
    return -ENOMEM;
  }
  slab.size = size;
  std::uint8_t* routines = slab.memory;
  for (void (*const routine)() :
       {&optrace_agent_record, &optrace_agent_record_arguments, &optrace_agent_record_return}) {
    routines = put_value(routines, reinterpret_cast<std::uint64_t>(routine));
  }
  std::uint64_t at = kFirstSlot;
  for (std::uint32_t i = 0; i < probes; ++i) {
    const plan::Probe& probe = plan.probes[i];
    std::uint8_t* const slot = slab.memory + at;
    std::uint8_t* const code = slot + kPreludeSize;
    write_prelude(slot, slab.memory, first_id + i, probe.kind);
    std::memcpy(code, plan.code + probe.code_offset, probe.code_size);
    if (apply_fixups(plan, probe, module.bias, far, code)) {
      slab.slots[i].offset = static_cast<std::uint32_t>(at);
      at += slot_size(probe, far);
    } else {
      slab.slots[i].state = ProbeState::no_room;
    }
  }
  if (mprotect(slab.memory, slab.size, PROT_READ | PROT_EXEC) != 0) {
    const int error = errno;
    slab.release();
    return -error;
  }
  return 0;
}

}  // namespace optrace::agent

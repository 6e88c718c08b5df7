#include "target/agent/callers/initial_stack.h"

#include <link.h>
#include <unwind.h>

// NOLINTBEGIN(bugprone-reserved-identifier)
// Defined by the linker: the address range of the agent itself.
extern "C" __attribute__((visibility("hidden"))) const ElfW(Ehdr) __ehdr_start;
extern "C" __attribute__((visibility("hidden"))) const char _end;
// NOLINTEND(bugprone-reserved-identifier)

namespace optrace::agent {
namespace {

struct Walk {
  recording::InitialFrame* frames;
  std::uint32_t capacity;
  std::uint32_t count = 0;
  std::uint64_t instruction = 0;  // Instruction address of the previous frame; 0: none.
  bool instruction_is_ours = false;
};

bool is_ours(std::uint64_t address) {
  return address >= reinterpret_cast<std::uint64_t>(&__ehdr_start) &&
         address < reinterpret_cast<std::uint64_t>(&_end);
}

bool holds(std::uint64_t slot, std::uint64_t value) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return *reinterpret_cast<const std::uint64_t*>(slot) == value;
}

// While a frame is visited, the unwinder's CFA is still that of its callee. The callee's return
// slot lies below that CFA and contains the address at which this frame continues.
_Unwind_Reason_Code visit(_Unwind_Context* context, void* argument) {
  Walk& walk = *static_cast<Walk*>(argument);
  const std::uint64_t instruction = _Unwind_GetIP(context);
  const std::uint64_t slot = _Unwind_GetCFA(context) - 8;
  if (walk.instruction != 0 && !walk.instruction_is_ours && slot % 8 == 0 &&
      holds(slot, instruction)) {
    if (walk.count == walk.capacity) return _URC_NORMAL_STOP;
    walk.frames[walk.count++] = {slot, instruction, walk.instruction};
  }
  walk.instruction = instruction;
  walk.instruction_is_ours = is_ours(instruction);
  return _URC_NO_REASON;
}

}  // namespace

std::uint32_t take_initial_stack(recording::InitialFrame* frames, std::uint32_t capacity) {
  Walk walk{frames, capacity};
  _Unwind_Backtrace(visit, &walk);
  return walk.count;
}

}  // namespace optrace::agent

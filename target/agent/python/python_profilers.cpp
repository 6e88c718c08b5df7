#include "target/agent/python/python_profilers.h"

#include <cerrno>
#include <cstddef>

#include <link.h>

#include "target/agent/process/modules.h"
#include "target/agent/process/patching.h"
#include "target/agent/python/hooked_builtins.h"
#include "target/agent/python/profiler_hooks.h"
#include "target/agent/python/profiler_state.h"

namespace optrace::agent {

using namespace profilers;

namespace {

// A thread state contains c_profilefunc, c_tracefunc, c_profileobj and c_traceobj in this order
// (Include/cpython/pystate.h). Their offset is determined at run time.
constexpr std::uint64_t kFirstSearched = 16;
constexpr std::uint64_t kLastSearched = 160;

// Returns the result of sys.getprofile() as a new reference, or null if the function is not the
// interpreter's own.
void* object_of_profiler() {
  const MethodDefinition* const definition = builtin_of_sys("getprofile");
  return definition == nullptr
             ? nullptr
             : reinterpret_cast<BuiltinOfOne>(definition->function)(nullptr, nullptr);
}

bool is_code(std::uint64_t address) {
  struct Search {
    std::uint64_t address;
    bool found;
  } search{address, false};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* argument) {
        Search& data = *static_cast<Search*>(argument);
        data.found = describe_module(*info).text_around(data.address, 1) != nullptr;
        return data.found ? 1 : 0;
      },
      &search);
  return search.found;
}

// Finds the first offset in a thread state that contains `function`, or any function if that is
// null, with `object` after it. The trace function has a larger offset.
void find_slot(void* thread, ProfileFunction function, const void* object) {
  for (std::uint64_t at = kFirstSearched; at <= kLastSearched && slot_offset == 0;
       at += sizeof(void*)) {
    const auto held = word_in<std::uint64_t>(thread, at);
    if (word_in<void*>(thread, at + kObjectBehindFunction) == object && held != 0 &&
        (function == nullptr ? is_code(held) : held == reinterpret_cast<std::uint64_t>(function))) {
      slot_offset = at;
    }
  }
}

// Sets our function for the first time in this process. If another one is already set, only finds
// its offset; returns -EBUSY if that fails.
int find_room_here(void* thread) {
  const PythonReference object(*python, object_of_profiler());
  if (object.get() == python->none) {
    python->set_profile(on_event, python->none);
    if (python->has_threads()) find_slot(thread, on_event, python->none);
    return 0;
  }
  if (object && python->has_threads()) find_slot(thread, nullptr, object.get());
  return slot_offset != 0 ? 0 : -EBUSY;
}

}  // namespace

int listen_here(const PythonInterface& interface, ProfileListener listener) {
  python = &interface;
  listen = listener;
  void* const thread = python->running_thread();
  listening = true;
  int result = slot_offset == 0 ? find_room_here(thread) : 0;
  if (result == 0 && slot_offset != 0) {
    result = find_or_add(thread) != nullptr && install_profiler(thread, true) ? 0 : -ENOSYS;
    hook_builtins();
    hook_libraries();
  }
  listening = result == 0;
  return result;
}

void listen_to(void* thread) {
  if (slot_offset != 0) {
    install_profiler(thread, true);
  } else {
    python->set_profile_of(thread, on_event, python->none);
    python->error_clear();
  }
}

void end_listening() {
  if (python == nullptr) return;
  listening = false;
  restore_builtins();
  {
    const Patching guard;
    unhook_libraries();
  }
  void* const here = python->running_thread();
  if (slot_offset == 0) {
    const PythonReference object(*python, object_of_profiler());
    if (object.get() == python->none) python->set_profile(nullptr, nullptr);
    return;
  }
  for_each_thread([](void* thread) {
    if (slot_of(thread) == on_event_in_front) slot_of(thread) = find(thread)->function;
  });
  if (slot_of(here) == on_event) set_in(here, nullptr);
}

void reset_listening() {
  listening = false;
  clear_hooked_libraries();
  restore_builtins();
}

void listen_to_builtin(MethodDefinition* definition, const char* type) {
  hook_builtin(definition, type);
}

void listen_to_new_libraries() {
  if (listening && slot_offset != 0) hook_libraries();
}

std::uint32_t reinstall_profilers() {
  if (!listening || slot_offset == 0) return 0;
  any_shown = false;
  std::uint32_t reinstalled = 0;
  for_each_thread([&](void* thread) {
    const Listening* const own = find(thread);
    if (own != nullptr && (own->shown || !is_ours(slot_of(thread)))) {
      hide(thread);
      reinstalled += install_profiler(thread, true) ? 1U : 0U;
    }
  });
  return reinstalled;
}

}  // namespace optrace::agent

#include "target/agent/python/profiler_hooks.h"

#include <cstddef>
#include <cstdint>

#include <link.h>

#include "target/agent/probes/signal_calls.h"
#include "target/agent/process/import_redirect.h"
#include "target/agent/process/modules.h"
#include "target/agent/process/patching.h"

namespace optrace::agent::profilers {
namespace {

// Handles the program's setting of a profile function, or null, on a thread. Calls `set` once with
// the function to be set instead, so that audit hooks are called once.
template <typename Set>
void set_behind_ours(void* thread, ProfileFunction function, const void* object, Set set) {
  Listening* const own = has_ours(thread) && !is_ours(function) ? find_or_add(thread) : nullptr;
  if (own == nullptr) {
    set(function);
    return;
  }
  const Listening before = *own;
  if (function == nullptr)
    end_profiler(*own);
  else
    begin_profiler(*own, function);
  const ProfileFunction ours = function == nullptr ? on_event : on_event_in_front;
  set(ours);
  if (slot_of(thread) != ours || object_of(thread) != object)
    *find(thread) = before;  // An audit hook rejected it.
}

// Replaces PyEval_SetProfile.
void set_profile(ProfileFunction function, void* object) {
  set_behind_ours(python->running_thread(), function, object,
                  [&](ProfileFunction set) { python->set_profile(set, object); });
}

// Replaces PyInterpreterState_ThreadHead.
void* first_thread(void* interpreter) {
  if (listening && slot_offset != 0) show_profilers();
  return python->first_thread(interpreter);
}

// Listens to the calling thread, which holds the GIL, if it is new. Threads that C++ code started,
// such as that of autograd for a device, have no other function that shows their Python. A thread
// that lost our function is left to reinstall_profilers(), which reports it.
void listen_to_acquired() {
  if (!listening || slot_offset == 0) return;
  void* const thread = python->running_thread();
  if (python->interpreter_of(thread) == python->main_interpreter() && thread != left_out &&
      find(thread) == nullptr)
    install_profiler(thread, true);
}

// Replaces PyEval_AcquireThread, by which pybind11 takes the GIL.
void acquire_thread(void* thread) {
  python->acquire_thread(thread);
  listen_to_acquired();
}

// Replaces PyGILState_Ensure.
int ensure_gil() {
  const int state = python->gil_ensure();
  listen_to_acquired();
  return state;
}

void* original_acquire = nullptr;
void* original_ensure = nullptr;
void* original_set = nullptr;  // The results of dlsym are called instead of these originals.
void* original_set_here = nullptr;
void* original_set_everywhere = nullptr;
void* original_first_thread = nullptr;

// Replaces PyEval_SetProfileAllThreads.
void set_profile_everywhere(ProfileFunction function, void* object) {
  using SetEverywhere = void (*)(ProfileFunction function, void* object);
  reinterpret_cast<SetEverywhere>(original_set_everywhere)(function, object);
  install_everywhere();
}

const optrace_agent_redirection kRedirections[] = {
    {"_PyEval_SetProfile", pointer_to(set_profile_of), &original_set},
    {"PyEval_SetProfile", pointer_to(set_profile), &original_set_here},
    {"PyEval_SetProfileAllThreads", pointer_to(set_profile_everywhere), &original_set_everywhere},
    {"PyInterpreterState_ThreadHead", pointer_to(first_thread), &original_first_thread},
    {"PyEval_AcquireThread", pointer_to(acquire_thread), &original_acquire},
    {"PyGILState_Ensure", pointer_to(ensure_gil), &original_ensure},
};
constexpr std::uint32_t kRedirectionCount = sizeof(kRedirections) / sizeof(kRedirections[0]);

// The libraries in the dynamic linker's list, in load order.
struct Libraries {
  static constexpr std::uint64_t kMaxNew = 64;

  unsigned long long ever;  // Number of libraries loaded in this process so far.
  std::uint64_t now;        // Number of libraries that are still loaded.
  std::uint64_t from;       // Index of the first library to store in `inside`.
  std::uint64_t inside[kMaxNew];
};

Libraries list_libraries(std::uint64_t from) {
  Libraries libraries{};
  libraries.from = from;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* argument) {
        auto& list = *static_cast<Libraries*>(argument);
        const LoadedModule module = describe_module(*info);
        if (list.now >= list.from && list.now - list.from < Libraries::kMaxNew)
          list.inside[list.now - list.from] = module.first;
        list.ever = info->dlpi_adds;
        ++list.now;
        return 0;
      },
      &libraries);
  return libraries;
}

unsigned long long libraries_hooked = 0;  // Value of Libraries::ever at the last call.

}  // namespace

int set_profile_of(void* thread, ProfileFunction function, void* object) {
  int result = 0;
  set_behind_ours(thread, function, object, [&](ProfileFunction set) {
    result = python->set_profile_of(thread, set, object);
  });
  return result;
}

void install_everywhere() {
  if (listening && slot_offset != 0) {
    for_each_thread([](void* thread) {
      hide(thread);
      if (find(thread) != nullptr) install_profiler(thread, false);
    });
  }
}

void hook_libraries() {
  const Libraries all = list_libraries(UINT64_MAX);
  const unsigned long long added = all.ever - libraries_hooked;
  if (added == 0 || !try_patching_for_long()) return;
  libraries_hooked = all.ever;
  if (added >= all.now || added > Libraries::kMaxNew) {
    redirect_imports(nullptr, kRedirections, kRedirectionCount);
    redirect_signal_calls_of_loaded(nullptr);
  } else {
    const Libraries last = list_libraries(all.now - added);
    for (std::uint64_t i = 0; i < added; ++i) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      const auto* const inside = reinterpret_cast<const void*>(last.inside[i]);
      redirect_imports(inside, kRedirections, kRedirectionCount);
      redirect_signal_calls_of_loaded(inside);
    }
  }
  end_patching();
}

void unhook_libraries() {
  restore_imports(kRedirections, kRedirectionCount);
  libraries_hooked = 0;
}

void clear_hooked_libraries() {
  libraries_hooked = 0;
}

}  // namespace optrace::agent::profilers

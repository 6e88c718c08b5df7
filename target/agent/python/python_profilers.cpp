#include "target/agent/python/python_profilers.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <link.h>

#include "target/agent/process/import_redirect.h"
#include "target/agent/process/key_map.h"
#include "target/agent/process/modules.h"
#include "target/agent/process/patching.h"
#include "target/agent/process/system_calls.h"
#include "target/agent/python/python_names.h"

namespace optrace::agent {

namespace {

using ProfileFunction = PythonInterface::ProfileFunction;

// A thread state contains c_profilefunc, c_tracefunc, c_profileobj and c_traceobj in this order
// (Include/cpython/pystate.h). Their offset is determined at run time.
constexpr std::uint64_t kFirstSearched = 16;
constexpr std::uint64_t kLastSearched = 160;
constexpr std::uint64_t kObjectBehindFunction = 16;

// State of a thread that is listened to.
struct Listening {
  std::uint64_t key;         // Address of the thread state.
  std::uint64_t id;          // Distinguishes it from a later one at the same address.
  ProfileFunction function;  // The program's function; null: none.
  // Calls of builtins that `function` has seen begin but not end.
  std::uint64_t open_calls;
  // True if `function` was set before ours, so it has seen calls that are not counted.
  bool sees_older;
  // True while `function` is temporarily back in the thread state, for code that looks for it
  // there.
  bool shown;
};

const PythonInterface* python = nullptr;
ProfileListener listen = nullptr;
bool listening = false;
std::uint64_t slot_offset = 0;  // Of c_profilefunc in a thread state; 0: unknown.
KeyMap<Listening> threads;      // Entries are never removed.
bool any_shown = false;

int on_event(void* self, void* frame, int event, void* argument);
int on_event_in_front(void* self, void* frame, int event, void* argument);

template <typename T>
T& word_in(void* thread, std::uint64_t offset) {
  return *reinterpret_cast<T*>(static_cast<char*>(thread) + offset);
}

ProfileFunction& slot_of(void* thread) {
  return word_in<ProfileFunction>(thread, slot_offset);
}

void* object_of(void* thread) {
  return word_in<void*>(thread, slot_offset + kObjectBehindFunction);
}

bool is_ours(ProfileFunction function) {
  return function == on_event || function == on_event_in_front;
}

// Returns null if the thread was never listened to.
Listening* find(void* thread) {
  Listening* const known = threads.find(address_of(thread));
  return known != nullptr && known->id == python->thread_id(thread) ? known : nullptr;
}

// Same, but adds the thread if it is missing. Returns null if memory can't be allocated.
Listening* find_or_add(void* thread) {
  if (Listening* const known = find(thread); known != nullptr) {
    return known;
  }
  return threads.set({address_of(thread), python->thread_id(thread), nullptr, 0, false, false});
}

template <typename Act>
void for_each_thread(Act act) {
  void* const interpreter = python->main_interpreter();
  for (void* thread = python->first_thread(interpreter); thread != nullptr;
       thread = python->next_thread(thread)) {
    act(thread);
  }
}

// Sets our function, or null, as a thread's profile function. Returns false if an audit hook
// rejects it.
bool set_in(void* thread, ProfileFunction function) {
  void* type = nullptr;
  void* value = nullptr;
  void* traceback = nullptr;
  python->error_fetch(&type, &value, &traceback);
  const bool set = python->set_profile_of(thread, function, nullptr) == 0;
  python->error_restore(type, value, traceback);
  return set;
}

// Called when the program has set `function`, which is not null, on a thread that is listened to.
void begin_profiler(Listening& thread, ProfileFunction function) {
  if (thread.function == nullptr) {
    thread.open_calls = 0;
    thread.sees_older = false;
  }
  thread.function = function;
}

void end_profiler(Listening& thread) {
  thread.function = nullptr;
  thread.shown = false;
}

// Sets our function, which forwards to the one in the thread state. Returns false on failure.
bool install_profiler(void* thread, bool sees_older) {
  const ProfileFunction function = slot_of(thread);
  if (is_ours(function)) {
    return true;
  }
  Listening* const own = find_or_add(thread);
  if (own == nullptr) {
    return false;
  }
  if (function == nullptr) {
    end_profiler(*own);
    return set_in(thread, on_event);
  }
  begin_profiler(*own, function);
  own->sees_older = own->sees_older || sees_older;
  own->shown = false;
  slot_of(thread) = on_event_in_front;
  return true;
}

// Puts the program's functions back into the thread states, until a thread's function is set or
// ours is called on another thread. For code that walks over the thread states and searches for its
// own function: torch.profiler removes only a function that it finds.
void show_profilers() {
  for_each_thread([](void* thread) {
    if (slot_of(thread) == on_event_in_front) {
      Listening* const own = find(thread);
      own->shown = any_shown = true;
      slot_of(thread) = own->function;
    }
  });
}

void hide(void* thread) {
  Listening* const own = find(thread);
  if (own != nullptr && own->shown) {
    own->shown = false;
    if (slot_of(thread) == own->function) {
      slot_of(thread) = on_event_in_front;
    }
  }
}

void hide_profilers() {
  any_shown = false;
  for_each_thread(hide);
}

// Returns true if the end of a builtin belongs to a call from before the program's function was
// set. The interpreter reports the end only because it reported the begin to our function, so the
// event is not forwarded.
bool ends_older_call(const Listening& thread, int event) {
  return (event == kBuiltinReturn || event == kBuiltinException) && thread.open_calls == 0 &&
         !thread.sees_older;
}

void count_call(Listening& thread, int event) {
  if (event == kBuiltinCall) {
    ++thread.open_calls;
  } else if ((event == kBuiltinReturn || event == kBuiltinException) && thread.open_calls != 0) {
    --thread.open_calls;
  }
}

// Profile functions, called by Python with the GIL held; it does not report calls made inside them.
// on_event never fails, because that would raise an exception in the program.
int on_event(void*, void* frame, int event, void* argument) {
  if (!listening) {
    python->set_profile(nullptr, nullptr);
    return 0;
  }
  if (any_shown) {
    hide_profilers();
  }
  listen(frame, event, argument, reinterpret_cast<std::uint64_t>(__builtin_frame_address(0)));
  return 0;
}

int on_event_in_front(void* self, void* frame, int event, void* argument) {
  void* const thread = python->running_thread();
  Listening& own = *find(thread);
  const ProfileFunction function = own.function;
  const bool handed_on = !ends_older_call(own, event);
  count_call(own, event);
  if (listening) {
    listen(frame, event, argument, reinterpret_cast<std::uint64_t>(__builtin_frame_address(0)));
  } else {
    slot_of(thread) = function;
  }
  const int result = handed_on ? function(self, frame, event, argument) : 0;
  if (result != 0) {
    // A builtin whose call event failed is not called and has no end event. A Python profile
    // function that raises is no longer set.
    Listening& failed = *find(thread);
    count_call(failed, event == kBuiltinCall ? kBuiltinReturn : kCall);
    if (listening && slot_of(thread) == nullptr) {
      install_profiler(thread, false);
    }
  }
  return result;
}

// Returns true if our function is set, or is only temporarily removed by show_profilers().
bool has_ours(void* thread) {
  if (!listening || slot_offset == 0) {
    return false;
  }
  if (any_shown) {
    hide(thread);
  }
  return is_ours(slot_of(thread));
}

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
  if (function == nullptr) {
    end_profiler(*own);
  } else {
    begin_profiler(*own, function);
  }
  const ProfileFunction ours = function == nullptr ? on_event : on_event_in_front;
  set(ours);
  if (slot_of(thread) != ours || object_of(thread) != object) {
    *find(thread) = before;  // An audit hook rejected it.
  }
}

// Replaces _PyEval_SetProfile.
int set_profile_of(void* thread, ProfileFunction function, void* object) {
  int result = 0;
  set_behind_ours(thread, function, object, [&](ProfileFunction set) {
    result = python->set_profile_of(thread, set, object);
  });
  return result;
}

// Replaces PyEval_SetProfile.
void set_profile(ProfileFunction function, void* object) {
  set_behind_ours(python->running_thread(), function, object,
                  [&](ProfileFunction set) { python->set_profile(set, object); });
}

// Replaces PyInterpreterState_ThreadHead.
void* first_thread(void* interpreter) {
  if (listening && slot_offset != 0) {
    show_profilers();
  }
  return python->first_thread(interpreter);
}

void* original_set = nullptr;  // The results of dlsym are called instead of these originals.
void* original_set_here = nullptr;
void* original_set_everywhere = nullptr;
void* original_first_thread = nullptr;

// Sets our function in front of the one that the program has just set on all threads.
void install_everywhere() {
  if (listening && slot_offset != 0) {
    for_each_thread([](void* thread) {
      hide(thread);
      if (find(thread) != nullptr) {
        install_profiler(thread, false);
      }
    });
  }
}

// Replaces PyEval_SetProfileAllThreads.
void set_profile_everywhere(ProfileFunction function, void* object) {
  using SetEverywhere = void (*)(ProfileFunction function, void* object);
  reinterpret_cast<SetEverywhere>(original_set_everywhere)(function, object);
  install_everywhere();
}

template <typename Function>
void* pointer_to(Function* function) {
  return reinterpret_cast<void*>(function);
}

const optrace_agent_redirection kRedirections[] = {
    {"_PyEval_SetProfile", pointer_to(set_profile_of), &original_set},
    {"PyEval_SetProfile", pointer_to(set_profile), &original_set_here},
    {"PyEval_SetProfileAllThreads", pointer_to(set_profile_everywhere), &original_set_everywhere},
    {"PyInterpreterState_ThreadHead", pointer_to(first_thread), &original_first_thread},
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
        if (list.now >= list.from && list.now - list.from < Libraries::kMaxNew) {
          list.inside[list.now - list.from] = module.first;
        }
        list.ever = info->dlpi_adds;
        ++list.now;
        return 0;
      },
      &libraries);
  return libraries;
}

unsigned long long libraries_hooked = 0;  // Value of Libraries::ever at the last call.

// Redirects the imports of the libraries loaded since the last call; of all libraries the first
// time. Leaves them to the next call while another thread changes text.
void hook_libraries() {
  const Libraries all = list_libraries(UINT64_MAX);
  const unsigned long long added = all.ever - libraries_hooked;
  if (added == 0 || !try_patching_for_long()) {
    return;
  }
  libraries_hooked = all.ever;
  if (added >= all.now || added > Libraries::kMaxNew) {
    redirect_imports(nullptr, kRedirections, kRedirectionCount);
  } else {
    const Libraries last = list_libraries(all.now - added);
    for (std::uint64_t i = 0; i < added; ++i) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      const auto* const inside = reinterpret_cast<const void*>(last.inside[i]);
      redirect_imports(inside, kRedirections, kRedirectionCount);
    }
  }
  end_patching();
}

// A builtin that sets profile functions without going through an import table. `definition` is null
// until its function is replaced by `replacement`.
struct HookedBuiltin {
  // The class whose method it is; empty: none; null: a function of the module sys.
  const char* type;
  const char* name;
  void* replacement;
  MethodDefinition* definition;  // Null until it is found.
  void* original;
};

using BuiltinOfOne = void* (*)(void* self, void* argument);
using AnyBuiltin = void* (*)(void*, void*, void*, void*, void*, void*);

void* set_profile_builtin(void* self, void* argument);
void* set_profile_everywhere_builtin(void* self, void* argument);
template <int Index>
void* builtin_that_sets_profile(void* a, void* b, void* c, void* d, void* e, void* f);

HookedBuiltin hooked_builtins[] = {
    {nullptr, "setprofile", pointer_to(set_profile_builtin), nullptr, nullptr},
    {nullptr, "_setprofileallthreads", pointer_to(set_profile_everywhere_builtin), nullptr,
     nullptr},
    // cProfile, which is built into some interpreters.
    {"_lsprof.Profiler", "enable", pointer_to(builtin_that_sets_profile<2>), nullptr, nullptr},
    {"_lsprof.Profiler", "disable", pointer_to(builtin_that_sets_profile<3>), nullptr, nullptr},
    // torch.profiler, which walks over the thread states and may not set any function.
    {"", "_enable_profiler", pointer_to(builtin_that_sets_profile<4>), nullptr, nullptr},
    {"", "_disable_profiler", pointer_to(builtin_that_sets_profile<5>), nullptr, nullptr},
    {"", "_toggle_collection_dynamic", pointer_to(builtin_that_sets_profile<6>), nullptr, nullptr},
};

// Works for any argument types, because all arguments are in registers.
template <int Index>
void* builtin_that_sets_profile(void* a, void* b, void* c, void* d, void* e, void* f) {
  void* const thread = python->running_thread();
  const bool ours = has_ours(thread);
  void* const result =
      reinterpret_cast<AnyBuiltin>(hooked_builtins[Index].original)(a, b, c, d, e, f);
  if (any_shown) {
    hide_profilers();
  }
  if (ours && listening) {
    install_profiler(thread, false);
  }
  return result;
}

void* set_profile_builtin(void* self, void* argument) {
  void* const thread = python->running_thread();
  if (has_ours(thread) && argument == python->none) {
    if (set_profile_of(thread, nullptr, nullptr) != 0) {
      return nullptr;
    }
    python->take_reference(python->none);
    return python->none;
  }
  const bool ours = has_ours(thread);
  void* const result = reinterpret_cast<BuiltinOfOne>(hooked_builtins[0].original)(self, argument);
  if (ours && listening) {
    install_profiler(thread, false);
  }
  return result;
}

void* set_profile_everywhere_builtin(void* self, void* argument) {
  void* const result = reinterpret_cast<BuiltinOfOne>(hooked_builtins[1].original)(self, argument);
  install_everywhere();
  return result;
}

MethodDefinition* builtin_of_sys(const char* name) {
  void* const function = python->system_object(name);
  if (function == nullptr || python->type(function) != python->function_type) {
    return nullptr;
  }
  MethodDefinition* const definition = definition_of(*python, function);
  return definition->name != nullptr && std::strcmp(definition->name, name) == 0 ? definition
                                                                                 : nullptr;
}

void hook(HookedBuiltin& builtin) {
  MethodDefinition* const definition = builtin.definition;
  // A table that was made read-only is left alone.
  if (definition != nullptr && definition->function != builtin.replacement &&
      is_writable(address_of(static_cast<const void*>(&definition->function)))) {
    builtin.original = definition->function;
    __atomic_store_n(&definition->function, builtin.replacement, __ATOMIC_RELEASE);
  }
}

void hook_builtins() {
  for (HookedBuiltin& builtin : hooked_builtins) {
    if (builtin.type == nullptr && builtin.definition == nullptr) {
      builtin.definition = builtin_of_sys(builtin.name);
    }
    hook(builtin);
  }
}

void restore_builtins() {
  for (const HookedBuiltin& builtin : hooked_builtins) {
    if (builtin.definition != nullptr && builtin.definition->function == builtin.replacement) {
      __atomic_store_n(&builtin.definition->function, builtin.original, __ATOMIC_RELEASE);
    }
  }
}

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
        Search& wanted = *static_cast<Search*>(argument);
        wanted.found = describe_module(*info).text_around(wanted.address, 1) != nullptr;
        return wanted.found ? 1 : 0;
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
    if (python->has_threads()) {
      find_slot(thread, on_event, python->none);
    }
    return 0;
  }
  if (object && python->has_threads()) {
    find_slot(thread, nullptr, object.get());
  }
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
  if (python == nullptr) {
    return;
  }
  listening = false;
  restore_builtins();
  {
    const Patching guard;
    restore_imports(kRedirections, kRedirectionCount);
  }
  libraries_hooked = 0;
  void* const here = python->running_thread();
  if (slot_offset == 0) {
    const PythonReference object(*python, object_of_profiler());
    if (object.get() == python->none) {
      python->set_profile(nullptr, nullptr);
    }
    return;
  }
  for_each_thread([](void* thread) {
    if (slot_of(thread) == on_event_in_front) {
      slot_of(thread) = find(thread)->function;
    }
  });
  if (slot_of(here) == on_event) {
    set_in(here, nullptr);
  }
}

void forget_listening() {
  listening = false;
  libraries_hooked = 0;
  restore_builtins();
}

void listen_to_builtin(MethodDefinition* definition, const char* type) {
  for (HookedBuiltin& builtin : hooked_builtins) {
    if (builtin.type != nullptr && std::strcmp(builtin.type, type) == 0 &&
        definition->name != nullptr && std::strcmp(builtin.name, definition->name) == 0) {
      builtin.definition = definition;
      if (listening && slot_offset != 0) {
        hook(builtin);
      }
    }
  }
}

void listen_to_new_libraries() {
  if (listening && slot_offset != 0) {
    hook_libraries();
  }
}

std::uint32_t reinstall_profilers() {
  if (!listening || slot_offset == 0) {
    return 0;
  }
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

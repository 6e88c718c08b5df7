#include "tracer/agent/python_profilers.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <link.h>

#include "tracer/agent/import_redirect.h"
#include "tracer/agent/key_map.h"
#include "tracer/agent/modules.h"
#include "tracer/agent/python_names.h"
#include "tracer/agent/system_calls.h"

namespace optrace::agent {

namespace {

using ProfileFunction = PythonInterface::ProfileFunction;

// A thread state has c_profilefunc, c_tracefunc, c_profileobj and c_traceobj in this order
// (Include/cpython/pystate.h); where is found out.
constexpr std::uint64_t kFirstSearched = 16;
constexpr std::uint64_t kLastSearched = 160;
constexpr std::uint64_t kObjectBehindFunction = 16;

// What is known of a thread that is listened to.
struct Listening {
  std::uint64_t key;         // The address of the thread state.
  std::uint64_t id;          // Tells it from one that was made later at the same address.
  ProfileFunction function;  // The program's; null: it has none.
  std::uint64_t open_calls;  // Of builtins, that this function saw and whose end it has not.
  bool sees_older;           // It was there before ours, so it saw calls that are not counted.
  bool shown;                // It is in the thread state itself, for somebody who looks there.
};

const PythonInterface* python = nullptr;
ProfileListener listen = nullptr;
bool listening = false;
std::uint64_t slot_offset = 0;  // Of c_profilefunc in a thread state; 0: not known.
KeyMap<Listening> threads;      // Nothing is taken out.
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

// Null where the thread was never listened to.
Listening* find(void* thread) {
  Listening* const known = threads.find(address_of(thread));
  return known != nullptr && known->id == python->thread_id(thread) ? known : nullptr;
}

// The same, added where it is missing; null without memory.
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

// Puts ours, or nothing, in the place of what a thread has. False where an audit hook refused it.
bool set_in(void* thread, ProfileFunction function) {
  void* type = nullptr;
  void* value = nullptr;
  void* traceback = nullptr;
  python->error_fetch(&type, &value, &traceback);
  const bool set = python->set_profile_of(thread, function, nullptr) == 0;
  python->error_restore(type, value, traceback);
  return set;
}

// The program has set `function`, other than null, on a thread that is listened to.
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

// Behind ours comes what is in the thread state. False where that could not be.
bool get_in_front(void* thread, bool sees_older) {
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

// Whoever walks over the thread states and looks for its own function there finds it:
// torch.profiler removes only what it finds. Until the thread's function is set, or ours runs on
// another one.
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

// Whether the end of a builtin belongs to a call from before the program's function was set. The
// interpreter reports the end of what it reported the begin of, to us: without us it would not.
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

// Python calls these with the GIL held and does not report what happens inside of them. Ours never
// fails, since that would raise an exception in the program.
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
    // A builtin that its call was not allowed to begin has no end, and a Python function that
    // raises is no longer the profile function.
    Listening& failed = *find(thread);
    count_call(failed, event == kBuiltinCall ? kBuiltinReturn : kCall);
    if (listening && slot_of(thread) == nullptr) {
      get_in_front(thread, false);
    }
  }
  return result;
}

// Whether ours is there, or would be if nobody were looking.
bool has_ours(void* thread) {
  if (!listening || slot_offset == 0) {
    return false;
  }
  if (any_shown) {
    hide(thread);
  }
  return is_ours(slot_of(thread));
}

// The program sets a profile function, or null, on a thread: `set` is called once, with what is to
// be set instead, so that audit hooks hear of it once.
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
    *find(thread) = before;  // An audit hook has refused it.
  }
}

// Instead of _PyEval_SetProfile.
int set_profile_of(void* thread, ProfileFunction function, void* object) {
  int result = 0;
  set_behind_ours(thread, function, object, [&](ProfileFunction set) {
    result = python->set_profile_of(thread, set, object);
  });
  return result;
}

// Instead of PyEval_SetProfile.
void set_profile(ProfileFunction function, void* object) {
  set_behind_ours(python->running_thread(), function, object,
                  [&](ProfileFunction set) { python->set_profile(set, object); });
}

// Instead of PyInterpreterState_ThreadHead.
void* first_thread(void* interpreter) {
  if (listening && slot_offset != 0) {
    show_profilers();
  }
  return python->first_thread(interpreter);
}

void* original_set = nullptr;  // What dlsym gives is called instead.
void* original_set_here = nullptr;
void* original_set_everywhere = nullptr;
void* original_first_thread = nullptr;

// Gets in front of what the program has just set on all threads.
void get_in_front_everywhere() {
  if (listening && slot_offset != 0) {
    for_each_thread([](void* thread) {
      hide(thread);
      if (find(thread) != nullptr) {
        get_in_front(thread, false);
      }
    });
  }
}

// Instead of PyEval_SetProfileAllThreads.
void set_profile_everywhere(ProfileFunction function, void* object) {
  using SetEverywhere = void (*)(ProfileFunction function, void* object);
  reinterpret_cast<SetEverywhere>(original_set_everywhere)(function, object);
  get_in_front_everywhere();
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

// The libraries that the dynamic linker lists, of which the last were loaded last.
struct Libraries {
  static constexpr std::uint64_t kMostNew = 64;

  unsigned long long ever;  // Loaded in this process so far,
  std::uint64_t now;        // and of these still there.
  std::uint64_t from;       // The first whose address is wanted:
  std::uint64_t inside[kMostNew];
};

Libraries list_libraries(std::uint64_t from) {
  Libraries libraries{};
  libraries.from = from;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* argument) {
        auto& list = *static_cast<Libraries*>(argument);
        const LoadedModule module = describe_module(*info);
        if (list.now >= list.from && list.now - list.from < Libraries::kMostNew) {
          list.inside[list.now - list.from] = module.first;
        }
        list.ever = info->dlpi_adds;
        ++list.now;
        return 0;
      },
      &libraries);
  return libraries;
}

unsigned long long libraries_led = 0;  // As Libraries::ever.

// Leads what is new since the last time; all, the first time.
void lead_libraries() {
  const Libraries all = list_libraries(UINT64_MAX);
  const unsigned long long added = all.ever - libraries_led;
  if (added == 0) {
    return;
  }
  libraries_led = all.ever;
  if (added >= all.now || added > Libraries::kMostNew) {
    redirect_imports(nullptr, kRedirections, kRedirectionCount);
    return;
  }
  const Libraries last = list_libraries(all.now - added);
  for (std::uint64_t i = 0; i < added; ++i) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    const auto* const inside = reinterpret_cast<const void*>(last.inside[i]);
    redirect_imports(inside, kRedirections, kRedirectionCount);
  }
}

// A builtin of the interpreter's own that sets profile functions: there is no import table on the
// way. `definition` is null unless it is led through `replacement`.
struct LedBuiltin {
  const char* type;  // Whose method it is; empty: nobody's; null: a function of the module sys.
  const char* name;
  void* replacement;
  MethodDefinition* definition;  // Null until it was met.
  void* original;
};

using BuiltinOfOne = void* (*)(void* self, void* argument);
using AnyBuiltin = void* (*)(void*, void*, void*, void*, void*, void*);

void* set_profile_builtin(void* self, void* argument);
void* set_profile_everywhere_builtin(void* self, void* argument);
template <int Index>
void* builtin_that_sets_profile(void* a, void* b, void* c, void* d, void* e, void* f);

LedBuiltin led_builtins[] = {
    {nullptr, "setprofile", pointer_to(set_profile_builtin), nullptr, nullptr},
    {nullptr, "_setprofileallthreads", pointer_to(set_profile_everywhere_builtin), nullptr,
     nullptr},
    // cProfile's, which is built into some interpreters.
    {"_lsprof.Profiler", "enable", pointer_to(builtin_that_sets_profile<2>), nullptr, nullptr},
    {"_lsprof.Profiler", "disable", pointer_to(builtin_that_sets_profile<3>), nullptr, nullptr},
    // torch.profiler's, which walk over the thread states and may set nothing then.
    {"", "_enable_profiler", pointer_to(builtin_that_sets_profile<4>), nullptr, nullptr},
    {"", "_disable_profiler", pointer_to(builtin_that_sets_profile<5>), nullptr, nullptr},
    {"", "_toggle_collection_dynamic", pointer_to(builtin_that_sets_profile<6>), nullptr, nullptr},
};

// Whatever arguments it takes: they are in registers.
template <int Index>
void* builtin_that_sets_profile(void* a, void* b, void* c, void* d, void* e, void* f) {
  void* const thread = python->running_thread();
  const bool ours = has_ours(thread);
  void* const result = reinterpret_cast<AnyBuiltin>(led_builtins[Index].original)(a, b, c, d, e, f);
  if (any_shown) {
    hide_profilers();
  }
  if (ours && listening) {
    get_in_front(thread, false);
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
  void* const result = reinterpret_cast<BuiltinOfOne>(led_builtins[0].original)(self, argument);
  if (ours && listening) {
    get_in_front(thread, false);
  }
  return result;
}

void* set_profile_everywhere_builtin(void* self, void* argument) {
  void* const result = reinterpret_cast<BuiltinOfOne>(led_builtins[1].original)(self, argument);
  get_in_front_everywhere();
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

void lead(LedBuiltin& builtin) {
  MethodDefinition* const definition = builtin.definition;
  // A table that somebody has made read-only stays as it is.
  if (definition != nullptr && definition->function != builtin.replacement &&
      is_writable(address_of(static_cast<const void*>(&definition->function)))) {
    builtin.original = definition->function;
    __atomic_store_n(&definition->function, builtin.replacement, __ATOMIC_RELEASE);
  }
}

void lead_builtins() {
  for (LedBuiltin& builtin : led_builtins) {
    if (builtin.type == nullptr && builtin.definition == nullptr) {
      builtin.definition = builtin_of_sys(builtin.name);
    }
    lead(builtin);
  }
}

void restore_builtins() {
  for (const LedBuiltin& builtin : led_builtins) {
    if (builtin.definition != nullptr && builtin.definition->function == builtin.replacement) {
      __atomic_store_n(&builtin.definition->function, builtin.original, __ATOMIC_RELEASE);
    }
  }
}

// What sys.getprofile() gives, as a new reference; null where it is not the interpreter's own.
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

// The first place in a thread state that holds a function with this object behind it: `function`,
// or any if that is null. The trace function comes later.
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

// Sets ours for the first time in this process, or finds that somebody else's is there.
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
    result = find_or_add(thread) != nullptr && get_in_front(thread, true) ? 0 : -ENOSYS;
    lead_builtins();
    lead_libraries();
  }
  listening = result == 0;
  return result;
}

void listen_to(void* thread) {
  if (slot_offset != 0) {
    get_in_front(thread, true);
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
  restore_imports(kRedirections, kRedirectionCount);
  libraries_led = 0;
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
  libraries_led = 0;
  restore_builtins();
}

void listen_to_builtin(MethodDefinition* definition, const char* type) {
  for (LedBuiltin& builtin : led_builtins) {
    if (builtin.type != nullptr && std::strcmp(builtin.type, type) == 0 &&
        definition->name != nullptr && std::strcmp(builtin.name, definition->name) == 0) {
      builtin.definition = definition;
      if (listening && slot_offset != 0) {
        lead(builtin);
      }
    }
  }
}

void listen_to_new_libraries() {
  if (listening && slot_offset != 0) {
    lead_libraries();
  }
}

std::uint32_t regain_threads() {
  if (!listening || slot_offset == 0) {
    return 0;
  }
  any_shown = false;
  std::uint32_t regained = 0;
  for_each_thread([&](void* thread) {
    const Listening* const own = find(thread);
    if (own != nullptr && (own->shown || !is_ours(slot_of(thread)))) {
      hide(thread);
      regained += get_in_front(thread, true) ? 1U : 0U;
    }
  });
  return regained;
}

}  // namespace optrace::agent

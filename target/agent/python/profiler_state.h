#pragma once

#include <cstdint>

#include "target/agent/process/key_map.h"
#include "target/agent/python/python_interface.h"
#include "target/agent/python/python_profilers.h"

namespace optrace::agent::profilers {

// What the files of python_profilers.h share. All is used with the GIL held.

using ProfileFunction = PythonInterface::ProfileFunction;

/// Distance of a profile function's object from the function in a thread state.
constexpr std::uint64_t kObjectBehindFunction = 16;

/// State of a thread that is listened to.
struct Listening {
  std::uint64_t key;         ///< Address of the thread state.
  std::uint64_t id;          ///< Distinguishes it from a later one at the same address.
  ProfileFunction function;  ///< The program's function; null: none.
  /// Calls of builtins that `function` has seen begin but not end.
  std::uint64_t open_calls;
  /// True if `function` was set before ours, so it has seen calls that are not counted.
  bool sees_older;
  /// True while `function` is temporarily back in the thread state, for code that looks for it
  /// there.
  bool shown;
};

inline const PythonInterface* python = nullptr;
inline ProfileListener listen = nullptr;
inline bool listening = false;
inline std::uint64_t slot_offset = 0;  ///< Of c_profilefunc in a thread state; 0: unknown.
inline KeyMap<Listening> threads;      ///< Entries are never removed.
inline bool any_shown = false;

template <typename T>
T& word_in(void* thread, std::uint64_t offset) {
  return *reinterpret_cast<T*>(static_cast<char*>(thread) + offset);
}

inline ProfileFunction& slot_of(void* thread) {
  return word_in<ProfileFunction>(thread, slot_offset);
}

inline void* object_of(void* thread) {
  return word_in<void*>(thread, slot_offset + kObjectBehindFunction);
}

template <typename Act>
void for_each_thread(Act act) {
  void* const interpreter = python->main_interpreter();
  for (void* thread = python->first_thread(interpreter); thread != nullptr;
       thread = python->next_thread(thread)) {
    act(thread);
  }
}

/// The agent's profile functions: the second one forwards to the program's.
int on_event(void* self, void* frame, int event, void* argument);
int on_event_in_front(void* self, void* frame, int event, void* argument);

bool is_ours(ProfileFunction function);

/// Returns null if the thread was never listened to.
Listening* find(void* thread);

/// Same, but adds the thread if it is missing. Returns null if memory can't be allocated.
Listening* find_or_add(void* thread);

/// Sets our function, or null, as a thread's profile function. Returns false if an audit hook
/// rejects it.
bool set_in(void* thread, ProfileFunction function);

/// Called when the program has set `function`, which is not null, on a thread that is listened to.
void begin_profiler(Listening& thread, ProfileFunction function);
void end_profiler(Listening& thread);

/// Sets our function, which forwards to the one in the thread state. Returns false on failure.
bool install_profiler(void* thread, bool sees_older);

/// Puts the program's functions back into the thread states, until a thread's function is set or
/// ours is called on another thread. For code that walks over the thread states and searches for
/// its own function: torch.profiler removes only a function that it finds.
void show_profilers();

/// Undoes show_profilers(), on one thread or on all.
void hide(void* thread);
void hide_profilers();

/// Returns true if our function is set, or is only temporarily removed by show_profilers().
bool has_ours(void* thread);

}  // namespace optrace::agent::profilers

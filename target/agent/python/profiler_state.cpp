#include "target/agent/python/profiler_state.h"

#include "target/agent/process/system_calls.h"

namespace optrace::agent::profilers {
namespace {

// Returns true if the end of a builtin belongs to a call from before the program's function was
// set. The interpreter reports the end only because it reported the begin to our function, so the
// event is not forwarded.
bool ends_older_call(const Listening& thread, int event) {
  return (event == kBuiltinReturn || event == kBuiltinException) && thread.open_calls == 0 &&
         !thread.sees_older;
}

void count_call(Listening& thread, int event) {
  if (event == kBuiltinCall)
    ++thread.open_calls;
  else if ((event == kBuiltinReturn || event == kBuiltinException) && thread.open_calls != 0)
    --thread.open_calls;
}

}  // namespace

bool is_ours(ProfileFunction function) {
  return function == on_event || function == on_event_in_front;
}

Listening* find(void* thread) {
  Listening* const known = threads.find(address_of(thread));
  return known != nullptr && known->id == python->thread_id(thread) ? known : nullptr;
}

Listening* find_or_add(void* thread) {
  if (Listening* const known = find(thread); known != nullptr) return known;
  return threads.set({address_of(thread), python->thread_id(thread), nullptr, 0, false, false});
}

bool set_in(void* thread, ProfileFunction function) {
  void* type = nullptr;
  void* value = nullptr;
  void* traceback = nullptr;
  python->error_fetch(&type, &value, &traceback);
  const bool set = python->set_profile_of(thread, function, nullptr) == 0;
  python->error_restore(type, value, traceback);
  return set;
}

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

bool install_profiler(void* thread, bool sees_older) {
  const ProfileFunction function = slot_of(thread);
  if (is_ours(function)) return true;
  Listening* const own = find_or_add(thread);
  if (own == nullptr) return false;
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
    if (slot_of(thread) == own->function) slot_of(thread) = on_event_in_front;
  }
}

void hide_profilers() {
  any_shown = false;
  for_each_thread(hide);
}

// Profile functions, called by Python with the GIL held; it does not report calls made inside them.
// on_event never fails, because that would raise an exception in the program.
int on_event(void*, void* frame, int event, void* argument) {
  if (!listening) {
    python->set_profile(nullptr, nullptr);
    return 0;
  }
  if (any_shown) hide_profilers();
  listen(frame, event, argument, reinterpret_cast<std::uint64_t>(__builtin_frame_address(0)));
  return 0;
}

int on_event_in_front(void* self, void* frame, int event, void* argument) {
  void* const thread = python->running_thread();
  Listening& own = *find(thread);
  const ProfileFunction function = own.function;
  const bool handed_on = !ends_older_call(own, event);
  count_call(own, event);
  if (listening)
    listen(frame, event, argument, reinterpret_cast<std::uint64_t>(__builtin_frame_address(0)));
  else
    slot_of(thread) = function;
  const int result = handed_on ? function(self, frame, event, argument) : 0;
  if (result != 0) {
    // A builtin whose call event failed is not called and has no end event. A Python profile
    // function that raises is no longer set.
    Listening& failed = *find(thread);
    count_call(failed, event == kBuiltinCall ? kBuiltinReturn : kCall);
    if (listening && slot_of(thread) == nullptr) install_profiler(thread, false);
  }
  return result;
}

bool has_ours(void* thread) {
  if (!listening || slot_offset == 0) return false;
  if (any_shown) hide(thread);
  return is_ours(slot_of(thread));
}

}  // namespace optrace::agent::profilers

#include "target/agent/python/python_events.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "target/agent/process/library_loads.h"
#include "target/agent/process/system_calls.h"
#include "target/agent/python/code_objects.h"
#include "target/agent/python/python_frames.h"
#include "target/agent/python/python_interface.h"
#include "target/agent/python/python_names.h"
#include "target/agent/python/python_profilers.h"
#include "target/agent/python/why_not_variables.h"
#include "target/agent/recording/event_buffer.h"
#include "target/agent/recording/python_calls.h"
#include "target/agent/recording/python_functions.h"
#include "target/agent/recording/reader_requests.h"
#include "target/interface/recording_format.h"

namespace optrace::agent {
namespace {

// In bytes, per function. A function with a larger position table gets no line numbers.
constexpr std::uint64_t kMaxPositionsSize = 1ULL << 20;
// Maximum number of interpreter-internal frames between two frames of Python code.
constexpr int kMaxHops = 4;

PythonInterface python;
bool python_found = false;

// The following variables are accessed with the GIL held only.

bool failed = false;  // True if the last call to turn events on failed.
// Calls that are live in a forked child were made, and counted, in its parent.
bool in_forked_child = false;
std::uint64_t newest_thread = 0;  // Threads up to this id have been examined.

// Adds the table that maps instructions to source positions.
void add_positions(void* code, FunctionDescription& function) {
  void* const table = field_of_code(python, code, python.minor < 10 ? "co_lnotab" : "co_linetable");
  if (table == nullptr || python.type(table) != python.bytes_type) return;
  const std::int64_t size = python.bytes_size(table);
  if (size > 0 && static_cast<std::uint64_t>(size) <= kMaxPositionsSize) {
    function.positions = python.bytes(table);
    function.positions_size = static_cast<std::uint32_t>(size);
  }
}

std::uint32_t new_python_function(void* frame, void* code) {
  watch_code_objects(python);
  NameBuffer name;
  name_python_function(python, frame, code, name);
  find_why_not_variables(python, code, name.data(), name.size());
  FunctionDescription function;
  function.text = name.data();
  function.name_size = name.size();
  append_text(python, field_of_code(python, code, "co_filename"), name);
  function.file_size = name.size() - function.name_size;
  const int first_line = number_in_code(python, code, "co_firstlineno");
  function.first_line = first_line > 0 ? static_cast<std::uint32_t>(first_line) : 0;
  function.minor_version = python.minor;
  constexpr int kOptimized = 0x1;  // Absent in modules and in the bodies of classes.
  constexpr int kResumes = 0x2A0;  // CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR.
  const int flags = number_in_code(python, code, "co_flags");
  // A module runs once, so its frames count it, but for those that a forked child has of its
  // parent.
  constexpr std::string_view kModule = "<module>";
  function.counted =
      (flags & kOptimized) != 0 ||
      (in_forked_child && std::string_view(function.text, function.name_size).ends_with(kModule));
  function.resumes = (flags & kResumes) != 0;
  add_positions(code, function);
  return describe_function(address_of(code), kIsCode, function);
}

std::uint32_t id_of_python_function(void* frame) {
  const PythonReference code(python, python.frame_code(frame));
  const std::uint32_t id = known_function(address_of(code.get()), kIsCode);
  if (id != kNoFunction) return id;
  return functions_are_full() ? kMergedFunction : new_python_function(frame, code.get());
}

std::uint32_t new_builtin(void* function, MethodDefinition* definition, std::uint32_t check) {
  const char* const type_name = type_name_of_builtin(python, function);
  listen_to_builtin(definition, type_name == nullptr ? "" : type_name);
  NameBuffer name;
  name_builtin(python, function, name);
  FunctionDescription named;
  named.text = name.data();
  named.name_size = name.size();
  return describe_function(address_of(definition), check, named);
}

// Most definitions are in libraries and permanent. pybind11 allocates one for each function and
// does not report when it is freed. A new definition at the same address is recognized by its
// different name; if the name is equal, the description is, too.
std::uint32_t check_of(const MethodDefinition* definition) {
  const char* const name = definition->name == nullptr ? "" : definition->name;
  std::uint32_t hash = 2166136261U;  // FNV-1a, because names are short.
  for (const char* at = name; *at != '\0'; ++at)
    hash = (hash ^ static_cast<unsigned char>(*at)) * 16777619U;
  return hash == kIsCode ? kIsCode + 1 : hash;
}

bool is_builtin(void* function) {
  return function != nullptr &&
         (python.type(function) == python.function_type ||
          python.is_subtype(python.type(function), python.function_type) != 0);
}

std::uint32_t id_of_builtin(void* function) {
  if (!is_builtin(function)) return kNoFunction;
  MethodDefinition* const definition = definition_of(python, function);
  const std::uint32_t check = check_of(definition);
  const std::uint32_t id = known_function(address_of(definition), check);
  if (id != kNoFunction) return id;
  return functions_are_full() ? kMergedFunction : new_builtin(function, definition, check);
}

std::uint32_t line_of(void* frame) {
  const int line = frame == nullptr ? 0 : python.frame_line(frame);
  return line > 0 ? static_cast<std::uint32_t>(line) : 0;
}

std::uint32_t line_of_caller(void* frame) {
  const PythonReference back(python, python.frame_back(frame));
  return line_of(back.get());
}

// Returns true if this frame, or one close outside of it, runs a known function.
bool is_near_known(std::uint64_t frame) {
  for (int hops = 0; frame != 0 && hops < kMaxHops; ++hops) {
    if (known_function(code_of_frame(frame), kIsCode) != kNoFunction) return true;
    frame = calling_frame(frame);
  }
  return false;
}

// Regains threads and reports their number; the missed events are lost.
void reinstall_and_report() {
  const std::uint32_t reinstalled = reinstall_profilers();
  Region* const region = current_region();
  if (reinstalled != 0 && region != nullptr && region_is_usable())
    __atomic_fetch_add(&region->header->python_missing, reinstalled, __ATOMIC_RELAXED);
}

// Starts listening on threads created since the last call.
void look_at_younger_threads() {
  if (!python.has_threads()) return;
  void* const current = python.current_thread();
  void* const interpreter = python.interpreter_of(current);
  if (interpreter != python.main_interpreter()) return;  // A subinterpreter has its own thread ids.
  reinstall_and_report();
  const std::uint64_t looked_at = newest_thread;
  for (void* thread = python.first_thread(interpreter); thread != nullptr;
       thread = python.next_thread(thread)) {
    const std::uint64_t id = python.thread_id(thread);
    if (id > looked_at && thread != current && thread != left_out) listen_to(thread);
    newest_thread = id > newest_thread ? id : newest_thread;
  }
}

// Returns true if this builtin may have created a thread when it returns: the functions of
// `_thread`.
bool starts_threads(void* function) {
  const char* const name = definition_of(python, function)->name;
  return name != nullptr && name[0] == 's' &&
         (std::strcmp(name, "start_new_thread") == 0 || std::strcmp(name, "start_new") == 0 ||
          std::strcmp(name, "start_joinable_thread") == 0);
}

// Returns true if this builtin may have loaded a library when it returns: that of the import
// system, and that of ctypes.
bool loads_libraries(void* function) {
  const char* const name = definition_of(python, function)->name;
  return name != nullptr &&
         (std::strcmp(name, "create_dynamic") == 0 || std::strcmp(name, "dlopen") == 0);
}

// Returns true if this builtin replaces the process's program unless it returns.
bool replaces_program(void* function) {
  const char* const name = definition_of(python, function)->name;
  return name != nullptr && name[0] == 'e' &&
         (std::strcmp(name, "execv") == 0 || std::strcmp(name, "execve") == 0);
}

bool forks(void* function) {
  const char* const name = definition_of(python, function)->name;
  return name != nullptr && name[0] == 'f' &&
         (std::strcmp(name, "fork") == 0 || std::strcmp(name, "forkpty") == 0);
}

// Does what the functions of a builtin that has returned may require.
void follow_builtin(void* function) {
  if (forks(function)) __atomic_fetch_add(&current_region()->header->forks, 1, __ATOMIC_RELAXED);
  if (starts_threads(function)) {
    look_at_younger_threads();  // The new thread waits for the GIL, which this thread holds.
  } else if (loads_libraries(function)) {
    listen_to_new_libraries();
    tell_loaded_modules();
  }
}

// Returns the offset of the instruction at which a frame is entered, -1 before the first one.
std::int32_t entered_at(void* frame) {
  const Unrecorded guard;
  if (python.frame_instruction != nullptr) return python.frame_instruction(frame);
  const PythonReference offset(python, python.attribute(frame, "f_lasti"));
  return offset ? static_cast<std::int32_t>(python.number(offset.get())) : -1;
}

// A generator that is resumed is entered behind its start.
void count_call(std::uint32_t function, void* frame) {
  CallCount* const calls = count_of_calls(function);
  if (calls == nullptr) return;
  if (calls->resumes) {
    const std::int32_t entered = entered_at(frame);
    if (entered > calls->start) return;
    calls->start = entered;
  }
  calls->count();
}

// The function, and its frame or that of its caller if frames can be read.
struct BegunCall {
  std::uint32_t function = kNoFunction;
  std::uint32_t line = 0;
  std::uint64_t frame = 0;
};

// The Python functions called here may have probes, but are not called by the program.
BegunCall describe_call(void* frame, bool builtin, void* argument, bool is_first) {
  const Unrecorded guard;
  BegunCall call;
  call.function = builtin ? id_of_builtin(argument) : id_of_python_function(frame);
  if (!enter_python_frames(python, frame)) {
    call.line = builtin ? line_of(frame) : line_of_caller(frame);
    return call;
  }
  call.frame = innermost_frame();
  if (is_first && call.frame != 0 &&
      !is_near_known(builtin ? call.frame : calling_frame(call.frame))) {
    // The caller was live before recording began.
    const PythonReference back(python, builtin ? nullptr : python.frame_back(frame));
    void* const caller = builtin ? frame : back.get();
    if (caller != nullptr) id_of_python_function(caller);
  }
  return call;
}

// Same for the usual case of a known function, for which Python need not be called. Returns a call
// without a function if this is not the case.
BegunCall recall_call(bool builtin, void* argument) {
  BegunCall call;
  call.frame = current_frame_of_thread();
  if (call.frame == 0) return call;
  if (!builtin) {
    call.function = known_function(code_of_frame(call.frame), kIsCode);
  } else if (argument != nullptr && python.type(argument) == python.function_type) {
    const MethodDefinition* const definition = definition_of(python, argument);
    call.function = known_function(address_of(definition), check_of(definition));
  }
  return call;
}

void begin_call(std::uint32_t round, void* frame, bool builtin, void* argument,
                std::uint64_t hook) {
  const PythonStack* const stack = python_stack(round);
  const bool is_first = stack == nullptr || stack->size == 0;
  BegunCall call;
  if (!is_first) call = recall_call(builtin, argument);
  if (call.function == kNoFunction) call = describe_call(frame, builtin, argument, is_first);
  if (call.function == kNoFunction) return;
  if (!builtin) count_call(call.function, frame);
  PythonCall begun{};
  begun.object = builtin ? argument : frame;
  begun.hook = hook;
  begun.frame = call.frame;
  begun.ticks = ticks();
  begun.function = call.function;
  begun.line = call.line;
  begun.builtin = builtin;
  // The hook's frame begins with its caller's rbp and its return slot.
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  begin_python_call(round, begun, hook + sizeof(void*), *reinterpret_cast<std::uint64_t*>(hook));
}

// Ends a call that is not among the thread's calls. If it is known, it began before the recording
// or found no room.
void end_unknown_call(std::uint32_t round, void* frame, bool builtin, void* argument,
                      std::uint64_t hook) {
  std::uint32_t function = kNoFunction;
  {
    const Unrecorded guard;
    function = builtin ? id_of_builtin(argument) : id_of_python_function(frame);
  }
  if (function != kNoFunction) {
    put_event(round, builtin ? recording::kBuiltinReturn : recording::kPythonReturn, 0, hook,
              function, ticks());
  }
}

// Implements ProfileListener.
void record_profile_event(void* frame, int event, void* argument, std::uint64_t stack_pointer) {
  const std::uint32_t round = running_round();
  if (round == 0) return;
  if (reader_wants_something()) {
    const Unrecorded guard;
    serve_reader();
  }
  const bool builtin = event >= kBuiltinCall && event <= kBuiltinReturn;
  if (!builtin && event != kCall && event != kReturn) return;
  if (builtin && is_builtin(argument) && replaces_program(argument))
    __atomic_store_n(&current_region()->header->replaced, event == kBuiltinCall ? 1 : 0,
                     __ATOMIC_RELAXED);
  if (event == kCall || event == kBuiltinCall) {
    begin_call(round, frame, builtin, argument, stack_pointer);
    return;
  }
  if (event == kBuiltinReturn && is_builtin(argument)) {
    const Unrecorded guard;
    follow_builtin(argument);
  }
  if (!builtin && any_why_not_variables)
    record_why_not_variables(python, round, frame, stack_pointer);
  if (!end_python_call(round, builtin ? argument : frame, stack_pointer))
    end_unknown_call(round, frame, builtin, argument, stack_pointer);
}

class GilHeld {
 public:
  GilHeld() : state_(python.gil_ensure()) {}
  ~GilHeld() { python.gil_release(state_); }
  GilHeld(const GilHeld&) = delete;
  GilHeld& operator=(const GilHeld&) = delete;

 private:
  int state_;
};

bool is_free_threaded() {
  NameBuffer flags;
  append_text(python, python.system_object("abiflags"), flags);
  return std::memchr(flags.data(), 't', flags.size()) != nullptr;
}

}  // namespace

int record_live_python() {
  const std::uint32_t round = running_round();
  if (round == 0) return -ENODATA;
  if (!python_found || python.is_initialized() == 0) return -ENOSYS;
  constexpr int kMaxFrames = 256;
  static constexpr char kImporting[] = "<frozen importlib";
  static constexpr char kTracer[] = "/optrace_target/";
  void* frames[kMaxFrames];  // Innermost first; new references.
  std::uint32_t functions[kMaxFrames];
  int count = 0;
  int outside = 0;  // Number of frames inside the outermost import or of the tracer.
  const GilHeld gil;
  {
    const Unrecorded unrecorded;
    void* frame = python.current_frame();
    if (frame != nullptr) python.take_reference(frame);
    for (; frame != nullptr && count < kMaxFrames; frame = python.frame_back(frame)) {
      frames[count] = frame;
      functions[count] = id_of_python_function(frame);
      const PythonReference code(python, python.frame_code(frame));
      NameBuffer file;
      append_text(python, field_of_code(python, code.get(), "co_filename"), file);
      ++count;
      if ((file.size() >= sizeof(kImporting) - 1 &&
           std::memcmp(file.data(), kImporting, sizeof(kImporting) - 1) == 0) ||
          memmem(file.data(), file.size(), kTracer, sizeof(kTracer) - 1) != nullptr) {
        outside = count;
      }
    }
    python.drop_reference(frame);
  }
  discard_pending_python(round);
  for (int i = count; i-- > outside;) {
    std::uint32_t line = 0;
    if (i + 1 < count) {
      const Unrecorded unrecorded;
      line = line_of(frames[i + 1]);
    }
    if (functions[i] != kNoFunction) {
      // The innermost function runs in the evaluation loop that called the agent. The positions of
      // the others on the stack are unknown, so their stack pointer is 0.
      const auto here = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
      record_event(round, recording::kPythonCall, line, i == 0 ? here : 0, functions[i]);
      PythonCall live{};
      live.object = frames[i];
      live.hook = here;
      live.ticks = ticks();
      live.function = functions[i];
      add_live_python_call(round, live);
      const CallCount* const calls = in_forked_child ? nullptr : count_of_calls(functions[i]);
      if (calls != nullptr) calls->count();
    }
  }
  const Unrecorded unrecorded;
  for (int i = 0; i < count; ++i) python.drop_reference(frames[i]);
  return 0;
}

void leave_this_thread_out() {
  python_found = python_found || python.find();
  left_out = python_found && python.has_threads() ? python.calling_thread() : nullptr;
}

void leave_live_calls_to_parent() {
  in_forked_child = true;
}

void reset_python_events() {
  reset_listening();
  leave_code_objects();
  clear_functions();
  remove_why_not_variables();
}

bool python_events_failed() {
  return failed;
}

int look_for_missing_python() {
  if (python_found && python.is_initialized() != 0) {
    const GilHeld gil;
    reinstall_and_report();
  }
  return 0;
}

namespace {

int listen() {
  prepare_python_frames(python);
  const int result = listen_here(python, record_profile_event);
  if (result == 0) {
    newest_thread = 0;
    look_at_younger_threads();
  }
  return result;
}

}  // namespace

int set_python_events(bool on) {
  failed = on;
  python_found = python_found || python.find();
  if (!python_found || python.is_initialized() == 0) return -ENOSYS;
  const GilHeld gil;
  if (is_free_threaded()) return -ENOTSUP;
  if (!on) {
    reinstall_and_report();
    end_listening();
    end_following_library_loads();
    leave_code_objects();
    clear_functions();
    remove_why_not_variables();
    left_out = nullptr;
    return 0;
  }
  const int result = listen();
  failed = result != 0;
  follow_library_loads(tell_loaded_modules);
  return result;
}

}  // namespace optrace::agent

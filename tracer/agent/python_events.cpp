#include "tracer/agent/python_events.h"

#include <atomic>
#include <cerrno>
#include <cstring>

#include "tracer/agent/event_buffer.h"
#include "tracer/agent/pages.h"
#include "tracer/agent/python_frames.h"
#include "tracer/agent/python_interface.h"
#include "tracer/agent/python_names.h"
#include "tracer/agent/python_profilers.h"
#include "tracer/agent/reader_wishes.h"
#include "tracer/agent/recording_format.h"
#include "tracer/agent/system_calls.h"

namespace optrace::agent {

namespace {

constexpr std::uint32_t kNamesPerBlock = 4096;
constexpr std::uint32_t kMostBlocks = 4096;
constexpr std::uint64_t kTextBlock = 256ULL * 1024;
constexpr std::uint32_t kNoFunction = 0xFFFFFFFF;
constexpr std::uint32_t kMergedFunction = 0;  // "...": all for which there was no room.
constexpr std::uint64_t kNotForNames = 4;     // A quarter of the arena: op records need room, too.
constexpr std::uint64_t kSmallestTable = 4096;
constexpr std::uint64_t kLargestPositions = 1ULL << 20;  // Of a function: it then has no lines.
constexpr int kMostHops = 4;  // Over frames of the interpreter's own, between two of Python code.

PythonInterface python;
bool python_found = false;

// All below is read and written under the GIL only. A function's id stays for the life of the
// process.

bool failed = false;              // The last call to set them on.
std::uint64_t newest_thread = 0;  // All up to this id have been looked at.

std::atomic<void*> left_out = nullptr;  // A thread that is the tracer's own.

// What a Python function or builtin is called; `text` is the name, then the file. The positions are
// the code object's own bytes, which live as long as it.
struct PythonFunctionName {
  const char* text;
  std::uint32_t name_size;
  std::uint32_t file_size;
  std::uint32_t first_line;
  std::uint32_t positions_size;
  const char* positions;
  std::uint64_t code;
};
PythonFunctionName* name_blocks[kMostBlocks];
std::uint32_t name_count = 0;
char* text_block = nullptr;
std::uint64_t text_left = 0;

std::uint64_t named_bytes = 0;       // What all functions take in an arena.
std::uint32_t described_count = 0;   // Functions, from id 0, that are in
std::uint32_t described_region = 0;  // the region of this serial.

// What stands for a function (a code object, a PyMethodDef) -> id; open addressing, half full at
// most. Each key is kept alive by a reference, so that no address comes to mean something else.
struct Known {
  std::uint64_t key;
  std::uint32_t id;
};
PageArray<Known> known;
std::uint64_t known_count = 0;

Known& place_of(const PageArray<Known>& table, std::uint64_t key) {
  std::uint64_t i = (key * 0x9E37'79B9'7F4A'7C15ULL) >> 20 & (table.count - 1);
  while (table[i].key != 0 && table[i].key != key) {
    i = (i + 1) & (table.count - 1);
  }
  return table[i];
}

bool make_room_for_key() {
  if ((known_count + 1) * 2 <= known.count) {
    return true;
  }
  PageArray<Known> larger;
  if (!larger.allocate(known.count == 0 ? kSmallestTable : known.count * 2)) {
    return false;
  }
  for (std::uint64_t i = 0; i < known.count; ++i) {
    if (known[i].key != 0) {
      place_of(larger, known[i].key) = known[i];
    }
  }
  known.release();
  known = larger;
  return true;
}

// The id of a new function, of which `function` has all but the text; kNoFunction without memory.
std::uint32_t add_name(const NameBuffer& name, PythonFunctionName function) {
  const std::uint32_t id = name_count;
  if (id / kNamesPerBlock >= kMostBlocks) {
    return kNoFunction;
  }
  if (id % kNamesPerBlock == 0) {
    PageArray<PythonFunctionName> block;
    if (!block.allocate(kNamesPerBlock)) {
      return kNoFunction;
    }
    name_blocks[id / kNamesPerBlock] = block.data;
  }
  if (text_left < name.size()) {
    PageArray<char> block;
    if (!block.allocate(kTextBlock)) {
      return kNoFunction;
    }
    text_block = block.data;
    text_left = kTextBlock;
  }
  std::memcpy(text_block, name.data(), name.size());
  function.text = text_block;
  function.file_size = name.size() - function.name_size;
  name_blocks[id / kNamesPerBlock][id % kNamesPerBlock] = function;
  text_block += name.size();
  text_left -= name.size();
  ++name_count;
  return id;
}

// The n-th Python function in an arena is the one with the id n.
bool describe_next(Region& region) {
  const PythonFunctionName& function =
      name_blocks[described_count / kNamesPerBlock][described_count % kNamesPerBlock];
  const recording::PythonFunction header{function.first_line,
                                         function.name_size,
                                         function.file_size,
                                         function.positions_size,
                                         function.code,
                                         python.minor,
                                         0};
  const std::uint64_t text_size = std::uint64_t{function.name_size} + function.file_size;
  const SignalsBlocked guard;
  void* const section = begin_section(region, sizeof(header) + text_size + function.positions_size);
  if (section == nullptr) {
    return false;
  }
  std::memcpy(section, &header, sizeof(header));
  char* const text = static_cast<char*>(section) + sizeof(header);
  std::memcpy(text, function.text, text_size);
  if (function.positions_size != 0) {
    std::memcpy(text + text_size, function.positions, function.positions_size);
  }
  complete_section(section, recording::SectionKind::python_function);
  ++described_count;
  return true;
}

// Sees to it that the region's reader knows the function. False when there is no room to say it.
bool describe_up_to(std::uint32_t id) {
  Region& region = *current_region();
  if (described_region != region.serial) {
    described_region = region.serial;
    described_count = 0;
  }
  while (described_count <= id) {
    if (!describe_next(region)) {
      return false;
    }
  }
  return true;
}

// Names take memory here and in the region, and each keeps an object of the program's alive: so
// there is an end to them.
bool has_room_for_name(std::uint64_t bytes) {
  const std::uint64_t arena = current_region()->arena_size;
  return named_bytes + bytes <= arena - arena / kNotForNames;
}

std::uint64_t bytes_described(std::uint64_t name_size, std::uint64_t positions_size) {
  return sizeof(recording::SectionHeader) + sizeof(recording::PythonFunction) + name_size +
         positions_size;
}

bool add_merged_function() {
  NameBuffer name;
  name.append("...");
  PythonFunctionName function{};
  function.name_size = name.size();
  return add_name(name, function) == kMergedFunction;
}

std::uint32_t remember(std::uint64_t key, void* kept_alive, const NameBuffer& name,
                       const PythonFunctionName& function) {
  if (name_count == 0 && !add_merged_function()) {
    return kNoFunction;
  }
  const std::uint64_t bytes = bytes_described(name.size(), function.positions_size);
  if (!has_room_for_name(bytes)) {
    return kMergedFunction;
  }
  if (!make_room_for_key()) {
    return kNoFunction;
  }
  const std::uint32_t id = add_name(name, function);
  if (id != kNoFunction) {
    python.take_reference(kept_alive);
    place_of(known, key) = {key, id};
    ++known_count;
    named_bytes += bytes;
  }
  return id;
}

// Whether it is no use to make another name: what is called often must not be named each time.
bool names_are_full() {
  constexpr std::uint64_t kSmall = 256;  // Bytes: few functions take less.
  return name_count != 0 && !has_room_for_name(kSmall);
}

std::uint32_t find_known(std::uint64_t key) {
  if (known.count == 0) {
    return kNoFunction;
  }
  const Known& place = place_of(known, key);
  return place.key == key ? place.id : kNoFunction;
}

// The bytes that say which instruction of the code is where in its file.
void add_positions(void* code, PythonFunctionName& function) {
  void* const table = field_of_code(python, code, python.minor < 10 ? "co_lnotab" : "co_linetable");
  if (table == nullptr || python.type(table) != python.bytes_type) {
    return;
  }
  const std::int64_t size = python.bytes_size(table);
  if (size > 0 && static_cast<std::uint64_t>(size) <= kLargestPositions) {
    function.positions = python.bytes(table);
    function.positions_size = static_cast<std::uint32_t>(size);
  }
}

std::uint32_t new_python_function(void* frame, void* code) {
  NameBuffer name;
  name_python_function(python, frame, code, name);
  PythonFunctionName function{};
  function.name_size = name.size();
  function.code = reinterpret_cast<std::uint64_t>(code);
  append_text(python, field_of_code(python, code, "co_filename"), name);
  const int first_line = number_in_code(python, code, "co_firstlineno");
  function.first_line = first_line > 0 ? static_cast<std::uint32_t>(first_line) : 0;
  add_positions(code, function);
  return remember(function.code, code, name, function);
}

std::uint32_t id_of_python_function(void* frame) {
  const PythonReference code(python, python.frame_code(frame));
  const std::uint32_t id = find_known(reinterpret_cast<std::uint64_t>(code.get()));
  if (id != kNoFunction) {
    return id;
  }
  return names_are_full() ? kMergedFunction : new_python_function(frame, code.get());
}

std::uint32_t new_builtin(void* function, MethodDefinition* definition) {
  const char* const type_name = type_name_of_builtin(python, function);
  listen_to_builtin(definition, type_name == nullptr ? "" : type_name);
  NameBuffer name;
  name_builtin(python, function, name);
  // A bound method holds its object, and that may hold much memory: its class keeps the
  // definition alive as well.
  void* const type = class_of_builtin(python, function);
  PythonFunctionName named{};
  named.name_size = name.size();
  return remember(reinterpret_cast<std::uint64_t>(definition), type != nullptr ? type : function,
                  name, named);
}

std::uint32_t id_of_builtin(void* function) {
  if (function == nullptr || python.is_subtype(python.type(function), python.function_type) == 0) {
    return kNoFunction;
  }
  MethodDefinition* const definition = definition_of(python, function);
  const std::uint32_t id = find_known(reinterpret_cast<std::uint64_t>(definition));
  if (id != kNoFunction) {
    return id;
  }
  return names_are_full() ? kMergedFunction : new_builtin(function, definition);
}

std::uint32_t line_of(void* frame) {
  const int line = frame == nullptr ? 0 : python.frame_line(frame);
  return line > 0 ? static_cast<std::uint32_t>(line) : 0;
}

std::uint32_t line_of_caller(void* frame) {
  const PythonReference back(python, python.frame_back(frame));
  return line_of(back.get());
}

// The nearest frame, from this one outwards, that runs a function that is known; 0 if there is none
// near.
std::uint64_t nearest_known(std::uint64_t frame, std::uint32_t& function) {
  for (int hops = 0; frame != 0 && hops < kMostHops; ++hops) {
    function = find_known(code_of_frame(frame));
    if (function != kNoFunction) {
      return frame;
    }
    frame = calling_frame(frame);
  }
  return 0;
}

// The frame that calls with this event, of a thread whose frames can be read; 0 if there is none.
std::uint64_t frame_that_calls(void* frame, bool builtin, std::uint32_t& function) {
  const std::uint64_t from = builtin ? innermost_frame() : calling_frame(innermost_frame());
  if (from == 0) {
    return 0;
  }
  if (const std::uint64_t nearest = nearest_known(from, function); nearest != 0) {
    return nearest;
  }
  // Live since before recording began, perhaps.
  const PythonReference back(python, builtin ? nullptr : python.frame_back(frame));
  void* const caller = builtin ? frame : back.get();
  return caller != nullptr && id_of_python_function(caller) != kNoFunction
             ? nearest_known(from, function)
             : 0;
}

// What was missed cannot be got back, but is said.
void regain_and_say() {
  const std::uint32_t regained = regain_threads();
  Region* const region = current_region();
  if (regained != 0 && region != nullptr && region_is_usable()) {
    __atomic_fetch_add(&region->header->python_missing, regained, __ATOMIC_RELAXED);
  }
}

// Looks at the threads that are younger than those looked at before, and listens to them.
void look_at_younger_threads() {
  if (!python.has_threads()) {
    return;
  }
  void* const current = python.current_thread();
  void* const interpreter = python.interpreter_of(current);
  if (interpreter != python.main_interpreter()) {
    return;  // A subinterpreter counts its threads for itself.
  }
  regain_and_say();
  const std::uint64_t looked_at = newest_thread;
  for (void* thread = python.first_thread(interpreter); thread != nullptr;
       thread = python.next_thread(thread)) {
    const std::uint64_t id = python.thread_id(thread);
    if (id > looked_at && thread != current && thread != left_out) {
      listen_to(thread);
    }
    newest_thread = id > newest_thread ? id : newest_thread;
  }
}

// Whether a builtin that has returned may have made a thread: the functions of `_thread`.
bool starts_threads(void* function) {
  const char* const name = definition_of(python, function)->name;
  return name != nullptr && name[0] == 's' &&
         (std::strcmp(name, "start_new_thread") == 0 || std::strcmp(name, "start_new") == 0 ||
          std::strcmp(name, "start_joinable_thread") == 0);
}

// Whether a builtin that has returned may have loaded a library: the import system's, and ctypes'.
bool loads_libraries(void* function) {
  const char* const name = definition_of(python, function)->name;
  return name != nullptr &&
         (std::strcmp(name, "create_dynamic") == 0 || std::strcmp(name, "dlopen") == 0);
}

// A ProfileListener.
void record_profile_event(void* frame, int event, void* argument, std::uint64_t stack_pointer) {
  const std::uint32_t round = running_round();
  if (round == 0) {
    return;
  }
  if (reader_wants_something()) {
    const Unrecorded guard;
    serve_reader();
  }
  const bool builtin = event >= kBuiltinCall && event <= kBuiltinReturn;
  if (!builtin && event != kCall && event != kReturn) {
    return;
  }
  std::uint32_t function = kNoFunction;
  std::uint32_t line = 0;
  std::uint64_t calling = 0;
  std::uint32_t caller = kNoFunction;
  {
    // Python's functions may be probed themselves; what they do here is not the program's doing.
    const Unrecorded guard;
    function = builtin ? id_of_builtin(argument) : id_of_python_function(frame);
    if (event == kCall || event == kBuiltinCall) {
      if (enter_python_frames(python, frame)) {
        calling = frame_that_calls(frame, builtin, caller);
      } else {
        line = builtin ? line_of(frame) : line_of_caller(frame);
      }
    } else if (event == kBuiltinReturn && function != kNoFunction && starts_threads(argument)) {
      look_at_younger_threads();  // The new one waits for the GIL, which is ours.
    } else if (event == kBuiltinReturn && function != kNoFunction && loads_libraries(argument)) {
      listen_to_new_libraries();
      tell_loaded_modules();
    }
  }
  if (calling != 0 && describe_up_to(caller)) {
    note_python_position(round, calling);
  }
  if (function == kNoFunction || !describe_up_to(function)) {
    return;
  }
  switch (event) {
    case kCall:
      record_event(round, recording::kPythonCall, line, stack_pointer, function);
      break;
    case kReturn:
      record_event(round, recording::kPythonReturn, line, stack_pointer, function);
      break;
    case kBuiltinCall:
      record_event(round, recording::kBuiltinCall, line, stack_pointer, function);
      break;
    default:
      record_event(round, recording::kBuiltinReturn, line, stack_pointer, function);
      break;
  }
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
  if (round == 0) {
    return -ENODATA;
  }
  if (!python_found || python.is_initialized() == 0) {
    return -ENOSYS;
  }
  constexpr int kMostFrames = 256;
  static constexpr char kImporting[] = "<frozen importlib";
  void* frames[kMostFrames];  // Innermost first; new references.
  std::uint32_t functions[kMostFrames];
  int count = 0;
  int outside = 0;  // Of the outermost import.
  const GilHeld gil;
  {
    const Unrecorded unrecorded;
    void* frame = python.current_frame();
    if (frame != nullptr) {
      python.take_reference(frame);
    }
    for (; frame != nullptr && count < kMostFrames; frame = python.frame_back(frame)) {
      frames[count] = frame;
      functions[count] = id_of_python_function(frame);
      const PythonReference code(python, python.frame_code(frame));
      NameBuffer file;
      append_text(python, field_of_code(python, code.get(), "co_filename"), file);
      ++count;
      if (file.size() >= sizeof(kImporting) - 1 &&
          std::memcmp(file.data(), kImporting, sizeof(kImporting) - 1) == 0) {
        outside = count;
      }
    }
    python.drop_reference(frame);
  }
  for (int i = count; i-- > outside;) {
    std::uint32_t line = 0;
    if (i + 1 < count) {
      const Unrecorded unrecorded;
      line = line_of(frames[i + 1]);
    }
    if (functions[i] != kNoFunction && describe_up_to(functions[i])) {
      // The innermost runs in the loop that called us. Where the others run is not known: they have
      // no stack pointer.
      const auto here = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
      record_event(round, recording::kPythonCall, line, i == 0 ? here : 0, functions[i]);
    }
  }
  const Unrecorded unrecorded;
  for (int i = 0; i < count; ++i) {
    python.drop_reference(frames[i]);
  }
  return 0;
}

void leave_this_thread_out() {
  python_found = python_found || python.find();
  left_out = python_found && python.has_threads() ? python.calling_thread() : nullptr;
}

void forget_python_events() {
  forget_listening();
}

bool python_events_failed() {
  return failed;
}

int look_for_missing_python() {
  if (python_found && python.is_initialized() != 0) {
    const GilHeld gil;
    regain_and_say();
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
  if (!python_found || python.is_initialized() == 0) {
    return -ENOSYS;
  }
  const GilHeld gil;
  if (is_free_threaded()) {
    return -ENOTSUP;
  }
  if (!on) {
    regain_and_say();
    end_listening();
    left_out = nullptr;
    return 0;
  }
  const int result = listen();
  failed = result != 0;
  return result;
}

}  // namespace optrace::agent

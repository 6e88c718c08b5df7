#include "target/agent/python/python_frames.h"

#include <cstddef>

#include <link.h>

#include "target/agent/process/modules.h"
#include "target/agent/process/system_calls.h"
#include "target/agent/recording/event_buffer.h"

namespace optrace::agent {
namespace {

constexpr std::uint64_t kWord = sizeof(std::uint64_t);
constexpr std::uint64_t kTag = 7;  // Low bits of a reference to an 8-byte aligned object.

// Offsets in the interpreter's structures. Up to 3.11, one word of _PyRuntime points to the current
// thread state (gilstate.tstate_current); since 3.12, each thread has a thread-local pointer. The
// innermost frame is reached from a thread state in one of these ways: directly; through the
// evaluation loop's record (_PyCFrame); through another pointer in the thread state.
struct Layout {
  std::uint32_t first_minor, last_minor;
  std::uint64_t current;      // In _PyRuntime; 0: thread-local.
  std::uint64_t thread_id;    // In a thread state; only if all threads share `current`.
  std::uint64_t frame;        // In a thread state; 0: search for it.
  std::uint64_t through;      // As in PythonFrames.
  std::uint64_t instruction;  // In a frame.
  std::uint64_t code;
  std::uint64_t previous;
  std::uint32_t unit;  // As in PythonFrames; 0: the frame has a pointer.
};

// From Include/cpython/pystate.h and Include/internal/pycore_runtime.h; for frames,
// Include/cpython/frameobject.h (3.9, 3.10), pycore_frame.h (3.11 to 3.13) and
// pycore_interpframe_structs.h (3.14).
constexpr Layout kLayouts[] = {
    {9, 9, 568, 176, 24, 0, 104, 32, 24, 1},   // 3.9
    {10, 10, 568, 176, 24, 0, 96, 32, 24, 2},  // 3.10
    {11, 11, 576, 152, 56, 9, 56, 32, 48, 0},  // 3.11
    {12, 12, 0, 0, 56, 1, 56, 0, 8, 0},        // 3.12
    {13, 14, 0, 0, 0, 0, 56, 0, 8, 0},         // 3.13 and 3.14
};
// Range searched in a thread state if the version's entry has no `frame`.
constexpr std::uint64_t kFirstSearched = 24;
constexpr std::uint64_t kLastSearched = 160;

enum class State : std::uint8_t { unknown, prepared, usable, unusable };

State state = State::unknown;  // This and the following are accessed with the GIL held only.
const Layout* layout = nullptr;
PythonFrames found = {};
std::uint64_t shared_current = 0;  // Address of the pointer that all threads share.
std::int64_t own_current = 0;      // Offset from the thread pointer of a thread's own pointer.

std::uint64_t thread_pointer() {
  std::uint64_t pointer = 0;  // NOLINT(misc-const-correctness): asm writes it.
  asm("movq %%fs:0, %0" : "=r"(pointer));
  return pointer;
}

std::uint64_t word_at(std::uint64_t address) {
  return *reinterpret_cast<const std::uint64_t*>(address);  // NOLINT(performance-no-int-to-ptr)
}

// Reads a word at an address that may be invalid, because the layout is only assumed.
bool read_carefully(std::uint64_t address, std::uint64_t& word) {
  if (address % kWord != 0 || !is_readable(address)) return false;
  word = word_at(address);
  return true;
}

struct Interpreter {
  std::uint64_t inside;                                 // An address in its code.
  std::uint64_t thread_local_block, thread_local_size;  // Those of the calling thread.
  bool known;
};

int look_for_interpreter(dl_phdr_info* info, std::size_t size, void* argument) {
  auto& interpreter = *static_cast<Interpreter*>(argument);
  const LoadedModule module = describe_module(*info);
  if (module.text_around(interpreter.inside, 1) == nullptr) return 0;
  interpreter.known = true;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type == PT_TLS && size >= sizeof(*info)) {
      interpreter.thread_local_block = address_of(info->dlpi_tls_data);
      interpreter.thread_local_size = info->dlpi_phdr[i].p_memsz;
    }
  }
  return 1;
}

// Finds the only thread-local word that points to the calling thread's state. It must be at an
// offset at which every thread has such a word: between the agent's own thread-local data, which
// every thread has from its start, and the thread pointer.
bool find_own_current(const Interpreter& interpreter, std::uint64_t thread) {
  const std::uint64_t pointer = thread_pointer();
  const std::uint64_t block = interpreter.thread_local_block;
  if (block <= address_of(&thread_buffer()) || block >= pointer) return false;
  int count = 0;
  for (std::uint64_t i = 0; i + kWord <= interpreter.thread_local_size; i += kWord) {
    if (word_at(block + i) == thread) {
      own_current = static_cast<std::int64_t>(block + i - pointer);
      ++count;
    }
  }
  return count == 1;
}

bool find_current(const PythonInterface& python, const Interpreter& interpreter) {
  const std::uint64_t thread = address_of(python.running_thread());
  if (layout->current == 0) return find_own_current(interpreter, thread);
  std::uint64_t id = 0;
  std::uint64_t named = 0;
  shared_current = address_of(python.runtime) + layout->current;
  return python.runtime != nullptr && read_carefully(shared_current, named) && named == thread &&
         read_carefully(thread + layout->thread_id, id) && id == thread_pointer();
}

// A frame's fields according to the interpreter's public functions.
struct KnownFrame {
  std::uint64_t object;
  std::uint64_t code;
  std::uint64_t instruction;  // In the frame's own representation.
};

bool ask_for_frame(const PythonInterface& python, void* frame, KnownFrame& known) {
  const PythonReference code(python, python.frame_code(frame));
  known.object = address_of(frame);
  known.code = address_of(code.get());
  if (layout->unit == 0) {
    // A code object ends with its instructions, so its fixed part ends where they begin.
    const PythonReference type(python, python.type_of(code.get()));
    const PythonReference size(python, python.attribute(type.get(), "__basicsize__"));
    const long first = size ? python.number(size.get()) : 0;
    python.error_clear();
    if (first <= 0 || python.frame_instruction == nullptr) return false;
    found.first_instruction = static_cast<std::uint64_t>(first);
    known.instruction = known.code + found.first_instruction +
                        static_cast<std::uint64_t>(python.frame_instruction(frame));
    return true;
  }
  const PythonReference offset(python, python.attribute(frame, "f_lasti"));
  const long instruction = offset ? python.number(offset.get()) : 0;
  python.error_clear();
  found.unit = layout->unit;
  // -1 before the first instruction; the frame then contains -1, too.
  known.instruction =
      instruction < 0 ? UINT32_MAX : static_cast<std::uint64_t>(instruction) / layout->unit;
  return offset && instruction >= -1;
}

bool is_frame(std::uint64_t address, const KnownFrame& known) {
  std::uint64_t code = 0;
  std::uint64_t instruction = 0;
  if (!read_carefully(address + layout->code, code) ||
      !read_carefully(address + layout->instruction, instruction) || (code & ~kTag) != known.code) {
    return false;
  }
  return layout->unit == 0 ? instruction == known.instruction
                           : address == known.object &&
                                 static_cast<std::uint32_t>(instruction) == known.instruction;
}

bool leads_to_frame(std::uint64_t thread, std::uint64_t offset, const KnownFrame& known) {
  std::uint64_t at = 0;
  if (!read_carefully(thread + offset, at) ||
      (layout->through != 0 && !read_carefully(at + layout->through - 1, at)) ||
      !is_frame(at, known)) {
    return false;
  }
  found.frame = offset;
  return true;
}

bool find_frames(const PythonInterface& python, void* frame) {
  KnownFrame known{};
  if (!ask_for_frame(python, frame, known)) return false;
  found.thread_id = layout->thread_id;
  found.through = layout->through;
  found.instruction = layout->instruction;
  found.code = layout->code;
  found.previous = layout->previous;
  const std::uint64_t thread = address_of(python.running_thread());
  if (layout->frame != 0) return leads_to_frame(thread, layout->frame, known);
  for (std::uint64_t offset = kFirstSearched; offset <= kLastSearched; offset += kWord)
    if (leads_to_frame(thread, offset, known)) return true;
  return false;
}

// Makes the layout available to probes.
void publish() {
  found.usable = false;
  probed_frames() = found;
  __atomic_store_n(&probed_frames().usable, true, __ATOMIC_RELEASE);
}

}  // namespace

void prepare_python_frames(const PythonInterface& python) {
  if (state != State::unknown) return;
  state = State::unusable;
  const std::uint32_t minor = python.minor;
  for (const Layout& one : kLayouts)
    if (minor >= one.first_minor && minor <= one.last_minor) layout = &one;
  Interpreter interpreter{};
  interpreter.inside = reinterpret_cast<std::uint64_t>(python.set_profile);
  dl_iterate_phdr(look_for_interpreter, &interpreter);
  if (layout == nullptr || !interpreter.known || !find_current(python, interpreter)) return;
  state = State::prepared;
}

bool enter_python_frames(const PythonInterface& python, void* frame) {
  if (state == State::prepared) {
    void* type = nullptr;
    void* value = nullptr;
    void* traceback = nullptr;
    python.error_fetch(&type, &value, &traceback);
    const bool usable = find_frames(python, frame);
    python.error_restore(type, value, traceback);
    state = usable ? State::usable : State::unusable;
    if (usable) publish();
  }
  if (state != State::usable) return false;
  const std::uint64_t thread = address_of(python.running_thread());
  ThreadBuffer& buffer = thread_buffer();
  if (buffer.python_thread == thread) return buffer.current_python != nullptr;
  const std::uint64_t word = layout->current != 0
                                 ? shared_current
                                 : thread_pointer() + static_cast<std::uint64_t>(own_current);
  buffer.current_python = nullptr;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  buffer.python_thread = thread;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  if (word_at(word) == thread) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    buffer.current_python = reinterpret_cast<const std::uint64_t*>(word);
  }
  return buffer.current_python != nullptr;
}

std::uint64_t current_frame_of_thread() {
  const ThreadBuffer& buffer = thread_buffer();
  const bool entered =
      buffer.current_python != nullptr && *buffer.current_python == buffer.python_thread &&
      (found.thread_id == 0 || word_at(buffer.python_thread + found.thread_id) == thread_pointer());
  return entered ? innermost_frame() : 0;
}

std::uint64_t innermost_frame() {
  const std::uint64_t at = word_at(thread_buffer().python_thread + found.frame);
  return found.through == 0 || at == 0 ? at : word_at(at + found.through - 1);
}

std::uint64_t calling_frame(std::uint64_t frame) {
  return word_at(frame + found.previous);
}

std::uint64_t code_of_frame(std::uint64_t frame) {
  return word_at(frame + found.code) & ~kTag;
}

}  // namespace optrace::agent

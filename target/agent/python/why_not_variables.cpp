#include "target/agent/python/why_not_variables.h"

#include <cstring>

#include "target/agent/python/python_names.h"
#include "target/agent/recording/event_buffer.h"
#include "target/agent/recording/op_record_store.h"
#include "target/agent/recording/python_calls.h"
#include "target/interface/recording_format.h"

namespace optrace::agent {

constinit bool any_why_not_variables = false;

namespace {

constexpr char kScope[] = "torch.nn.";
constexpr char kPrefix[] = "why_not_";
constexpr std::uint32_t kMaxFunctions = 16;
constexpr std::uint32_t kMaxVariables = 4;  // Of one function.
constexpr std::uint32_t kMaxRecords = 64;   // Of different contents.
// PyFrame_GetVar exists from this version on.
constexpr std::uint32_t kHasGetVariable = 12;
// Offsets in 3.11, in a frame object after the header (Include/internal/pycore_frame.h): the
// interpreter's frame; and in that frame: its code and its variables.
constexpr std::uint32_t kInnerFrames = 11;
constexpr std::uint64_t kInnerFrame = 8;
constexpr std::uint64_t kInnerCode = 32;
constexpr std::uint64_t kInnerVariables = 72;

struct Variable {
  void* name;  ///< The code object keeps it alive.
  std::int64_t place;
};

struct Function {
  void* code;  ///< Null: a free place.
  std::uint32_t count;
  Variable variables[kMaxVariables];
};
Function functions[kMaxFunctions];

/// The contents of the records that were made, by hash.
struct Made {
  std::uint64_t hash;
  std::uint32_t record;
};
Made made[kMaxRecords];
std::uint32_t made_count = 0;

bool starts_with(const char* text, std::uint64_t size, const char* prefix) {
  const std::uint64_t length = std::strlen(prefix);
  return size >= length && std::memcmp(text, prefix, length) == 0;
}

// Prevents garbage collections, which run Python code, from the creation of an object.
class NoCollection {
 public:
  explicit NoCollection(const PythonInterface& python)
      : python_(python), on_(python.gc_disable != nullptr && python.gc_disable() != 0) {}
  ~NoCollection() {
    if (on_) python_.gc_enable();
  }
  NoCollection(const NoCollection&) = delete;
  NoCollection& operator=(const NoCollection&) = delete;

 private:
  const PythonInterface& python_;
  bool on_;
};

Function* function_of(const void* code) {
  for (Function& one : functions)
    if (one.code == code) return &one;
  return nullptr;
}

// Returns a variable of a frame as a new reference, or null if it has no value or can't be read.
void* value_of(const PythonInterface& python, void* frame, const void* code,
               const Variable& variable) {
  if (python.minor >= kHasGetVariable) {
    void* const value =
        python.frame_variable == nullptr ? nullptr : python.frame_variable(frame, variable.name);
    if (value == nullptr) python.error_clear();
    return value;
  }
  const char* variables = nullptr;
  if (python.minor == kInnerFrames) {
    const char* const inner = python.field<const char*>(frame, kInnerFrame);
    if (inner != nullptr && *reinterpret_cast<void* const*>(inner + kInnerCode) == code)
      variables = inner + kInnerVariables;
  } else {
    variables = variables_of_frame(python, frame);
  }
  if (variables == nullptr) return nullptr;
  void* const value = reinterpret_cast<void* const*>(variables)[variable.place];
  if (value != nullptr) python.take_reference(value);
  return value;
}

// Appends text as it is between the quotation marks of a JSON string.
void append_escaped(const NameBuffer& text, NameBuffer& json) {
  constexpr std::uint32_t kMaxLength = 1000;  // Bytes of one text.
  constexpr char kDigits[] = "0123456789abcdef";
  // A character is not cut: the bytes that continue it begin with the bits 10.
  std::uint32_t size = text.size() < kMaxLength ? text.size() : kMaxLength;
  while (size < text.size() && size > 0 && (text.data()[size] & 0xC0) == 0x80) --size;
  for (std::uint32_t i = 0; i < size; ++i) {
    const char one = text.data()[i];
    const auto byte = static_cast<unsigned char>(one);
    if (byte < 0x20) {
      const char escape[] = {'\\', 'u', '0', '0', kDigits[byte >> 4], kDigits[byte & 0xF]};
      json.append(escape, sizeof(escape));
      continue;
    }
    if (one == '"' || one == '\\') json.append("\\");
    json.append(&one, 1);
  }
}

// Appends `"name":"value"` for a variable that is a str. Returns false for any other.
bool append_variable(const PythonInterface& python, void* frame, const void* code,
                     const Variable& variable, NameBuffer& json) {
  const PythonReference value(python, value_of(python, frame, code, variable));
  NameBuffer text;
  if (!append_text(python, value.get(), text)) return false;
  NameBuffer name;
  append_text(python, variable.name, name);
  json.append("\"");
  append_escaped(name, json);
  json.append("\":\"");
  append_escaped(text, json);
  json.append("\"");
  return true;
}

std::uint32_t record_of(const NameBuffer& json) {
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a.
  for (std::uint32_t i = 0; i < json.size(); ++i)
    hash = (hash ^ static_cast<unsigned char>(json.data()[i])) * 1099511628211ULL;
  for (std::uint32_t i = 0; i < made_count; ++i)
    if (made[i].hash == hash) return made[i].record;
  if (made_count == kMaxRecords) return 0;
  const std::uint32_t record = new_op_record();
  if (!keep_op_record(record, json.data(), json.size())) return 0;
  made[made_count++] = {hash, record};
  return record;
}

}  // namespace

void find_why_not_variables(const PythonInterface& python, void* code, const char* name,
                            std::uint64_t name_size) {
  if (!starts_with(name, name_size, kScope) || function_of(code) != nullptr) return;
  Function* const place = function_of(nullptr);
  if (place == nullptr) return;
  const NoCollection guard(python);
  const PythonReference names(python, variable_names_of_code(python, code));
  const std::int64_t count = names ? python.tuple_size(names.get()) : 0;
  Function function{code, 0, {}};
  for (std::int64_t i = 0; i < count && function.count < kMaxVariables; ++i) {
    void* const one = python.tuple_item(names.get(), i);
    NameBuffer spelled;
    if (append_text(python, one, spelled) && starts_with(spelled.data(), spelled.size(), kPrefix))
      function.variables[function.count++] = {one, i};
  }
  if (function.count != 0) {
    *place = function;
    any_why_not_variables = true;
  }
}

void record_why_not_variables(const PythonInterface& python, std::uint32_t round, void* frame,
                              std::uint64_t hook) {
  const PythonStack* const stack = python_stack(round);
  if (stack == nullptr || stack->size == 0 || stack->size != stack->recorded ||
      stack->calls[stack->size - 1].object != frame) {
    return;
  }
  std::uint32_t record = 0;
  {
    const Unrecorded guard;
    const PythonReference code(python, python.frame_code(frame));
    const Function* const function = function_of(code.get());
    if (function == nullptr) return;
    const NoCollection collection_guard(python);
    void* type = nullptr;
    void* value = nullptr;
    void* traceback = nullptr;
    python.error_fetch(&type, &value, &traceback);
    NameBuffer json;
    json.append(R"({"kind":"variables","variables":{)");
    const std::uint32_t empty = json.size();
    for (std::uint32_t i = 0; i < function->count; ++i) {
      NameBuffer one;
      if (append_variable(python, frame, code.get(), function->variables[i], one)) {
        json.append(json.size() == empty ? "" : ",");
        json.append(one.data(), one.size());
      }
    }
    python.error_restore(type, value, traceback);
    if (json.size() == empty) return;
    json.append("}}");
    record = record_of(json);
  }
  // All functions that the frame's evaluation loop has called have returned.
  const std::uint64_t loop = stack->calls[stack->size - 1].loop;
  put_event(round, recording::kCallRecord, record, hook, loop > hook ? loop - 1 : hook, ticks());
}

void remove_why_not_variables(void* code) {
  Function* const function = function_of(code);
  if (function != nullptr) function->code = nullptr;
}

void remove_why_not_variables() {
  for (Function& one : functions) one.code = nullptr;
  clear_why_not_records();
  any_why_not_variables = false;
}

void clear_why_not_records() {
  made_count = 0;
}

}  // namespace optrace::agent

#include "target/agent/python/python_names.h"

#include <cstring>
#include <initializer_list>

namespace optrace::agent {
namespace {

constexpr int kMaxWrappers = 8;  // Maximum number of decorators on one function.

// Offsets in PyTypeObject (Include/cpython/object.h) after the header; the same from 3.9 to 3.14.
constexpr std::uint64_t kTypeName = 8;
constexpr std::uint64_t kTypeBasicSize = 16;
constexpr std::uint64_t kTypeMethods = 216;
constexpr std::uint64_t kTypeMembers = 224;
constexpr std::uint64_t kTypeGetters = 232;
constexpr std::uint64_t kTypeDictionary = 248;
constexpr std::uint64_t kTypeOrder = 328;  // tp_mro
// Offsets in PyCFunctionObject (Include/cpython/methodobject.h) after the header.
constexpr std::uint64_t kFunctionDefinition = 0;
constexpr std::uint64_t kFunctionModule = 16;
constexpr std::uint64_t kCellContent = 0;

constexpr unsigned long kHeapType = 1UL << 9;        // Py_TPFLAGS_HEAPTYPE (Include/object.h).
constexpr unsigned long kTupleSubclass = 1UL << 26;  // Py_TPFLAGS_TUPLE_SUBCLASS.
constexpr unsigned long kTextSubclass = 1UL << 28;
constexpr unsigned long kDictSubclass = 1UL << 29;
constexpr unsigned long kTypeSubclass = 1UL << 31;

struct Member {  // PyMemberDef (Include/structmember.h)
  const char* name;
  int type;
  std::int64_t offset;  // From the start of the object.
  int flags;
  const char* text;
};

struct Getter {  // PyGetSetDef (Include/descrobject.h)
  const char* name;
  void* (*get)(void* object, void* closure);
  void* set;
  const char* text;
  void* closure;
};

bool has_flag(const PythonInterface& python, void* object, unsigned long flag) {
  return object != nullptr && (python.type_flags(python.type(object)) & flag) != 0;
}

bool is_class(const PythonInterface& python, void* object) {
  return has_flag(python, object, kTypeSubclass);
}

// Returns a field of an object by its Python name, or null if this version has none. The object
// must be exactly of `type`, one of the interpreter's own.
const char* member_of(const PythonInterface& python, void* type, void* object, const char* name) {
  for (const auto* one = python.field<const Member*>(type, kTypeMembers);
       one != nullptr && one->name != nullptr; ++one) {
    if (std::strcmp(one->name, name) == 0) return static_cast<const char*>(object) + one->offset;
  }
  return nullptr;
}

void* object_in(const PythonInterface& python, void* type, void* object, const char* name) {
  const char* const field = member_of(python, type, object, name);
  return field == nullptr ? nullptr : *reinterpret_cast<void* const*>(field);
}

bool is_text(const PythonInterface& python, void* object) {
  return has_flag(python, object, kTextSubclass);
}

bool is_spelled(const PythonInterface& python, void* text, const char* spelling) {
  const std::uint64_t size = std::strlen(spelling);
  if (!is_text(python, text) || python.text_length(text) != static_cast<std::int64_t>(size))
    return false;
  for (std::uint64_t i = 0; i < size; ++i) {
    if (python.character(text, static_cast<std::int64_t>(i)) !=
        static_cast<unsigned char>(spelling[i])) {
      return false;
    }
  }
  return true;
}

bool is_same_text(const PythonInterface& python, void* one, void* other) {
  if (one == other) return true;
  if (!is_text(python, one) || python.text_length(one) != python.text_length(other)) return false;
  for (std::int64_t i = 0; i < python.text_length(one); ++i)
    if (python.character(one, i) != python.character(other, i)) return false;
  return true;
}

// Returns the value of the first key that `matches` as a borrowed reference, or null if there is
// none or `dictionary` is not a dictionary. A regular lookup would compare the key with others,
// which may be the program's objects.
template <typename Matches>
void* value_in(const PythonInterface& python, void* dictionary, Matches matches) {
  if (!has_flag(python, dictionary, kDictSubclass)) return nullptr;
  std::int64_t position = 0;
  void* key = nullptr;
  void* value = nullptr;
  while (python.next_entry(dictionary, &position, &key, &value) != 0)
    if (matches(key)) return value;
  return nullptr;
}

void* value_of(const PythonInterface& python, void* dictionary, const char* searched) {
  return value_in(python, dictionary, [&](void* key) { return is_spelled(python, key, searched); });
}

// Returns the function that a decorator's object wraps as a borrowed reference, or null if the
// object is of no known kind.
void* wrapped_by(const PythonInterface& python, void* object) {
  struct Wrapper {
    void* type;
    const char* member;
  };
  for (const Wrapper& one :
       {Wrapper{python.class_method_type, "__func__"},
        Wrapper{python.static_method_type, "__func__"}, Wrapper{python.property_type, "fget"}}) {
    if (python.type(object) == one.type) return object_in(python, one.type, object, one.member);
  }
  void** const attributes = python.attributes_of(object);
  return attributes == nullptr ? nullptr : value_of(python, *attributes, "__wrapped__");
}

// Returns the function object that runs `code`, found by unwrapping decorators from `object`, as a
// borrowed reference, or null if not found.
void* unwrap_to_code(const PythonInterface& python, void* object, void* code) {
  for (int i = 0; i < kMaxWrappers && object != nullptr; ++i) {
    if (python.type(object) == python.python_function_type &&
        python.code_of_function(object) == code) {
      return object;
    }
    object = wrapped_by(python, object);
  }
  return nullptr;
}

void* find_function(const PythonInterface& python, void* dictionary, void* function_name,
                    void* code) {
  void* const value = value_in(python, dictionary,
                               [&](void* key) { return is_same_text(python, key, function_name); });
  return unwrap_to_code(python, value, code);
}

// Returns the tp_mro of a class as a borrowed reference, or null if the class is not initialized.
void* order_of(const PythonInterface& python, void* type) {
  void* const order = python.field(type, kTypeOrder);
  return has_flag(python, order, kTupleSubclass) ? order : nullptr;
}

void* find_in_classes(const PythonInterface& python, void* type, void* function_name, void* code) {
  void* const order = order_of(python, type);
  const std::int64_t classes = order == nullptr ? 0 : python.tuple_size(order);
  for (std::int64_t i = 0; i < classes; ++i) {
    void* const one = python.tuple_item(order, i);
    void* const found =
        is_class(python, one)
            ? find_function(python, python.field(one, kTypeDictionary), function_name, code)
            : nullptr;
    if (found != nullptr) return found;
  }
  return nullptr;
}

// Returns the first argument of a frame as a borrowed reference, before 3.11. It is a local
// variable, which is in a cell if an inner function uses it. Returns null for a function without
// arguments.
void* first_argument(const PythonInterface& python, void* frame, void* code) {
  void* const names = field_of_code(python, code, "co_varnames");
  if (number_in_code(python, code, "co_argcount") < 1 || !has_flag(python, names, kTupleSubclass) ||
      python.tuple_size(names) < 1) {
    return nullptr;
  }
  void* const* const variables = reinterpret_cast<void* const*>(variables_of_frame(python, frame));
  if (variables[0] != nullptr) return variables[0];
  void* const cells = field_of_code(python, code, "co_cellvars");
  const std::int64_t count = has_flag(python, cells, kTupleSubclass) ? python.tuple_size(cells) : 0;
  for (std::int64_t i = 0; i < count; ++i) {
    void* const cell = variables[number_in_code(python, code, "co_nlocals") + i];
    if (python.tuple_item(cells, i) == python.tuple_item(names, 0) && cell != nullptr &&
        python.type(cell) == python.cell_type) {
      return python.field(cell, kCellContent);
    }
  }
  return nullptr;
}

// Finds the function of a frame as a borrowed reference. Before 3.11, a code object has no
// qualified name, but the function has. The module's globals and the classes of the first argument
// are searched. Returns null for a nested function.
void* find_function_of_frame(const PythonInterface& python, void* frame, void* globals,
                             void* code) {
  void* const function_name = field_of_code(python, code, "co_name");
  if (!is_text(python, function_name)) return nullptr;
  void* const found = find_function(python, globals, function_name, code);
  void* const first = found == nullptr ? first_argument(python, frame, code) : nullptr;
  if (first == nullptr) return found;
  void* const method = find_in_classes(python, python.type(first), function_name, code);
  return method == nullptr && is_class(python, first)
             ? find_in_classes(python, first, function_name, code)
             : method;
}

// Returns the result of one of the interpreter's own getters, which reads a field, as a new
// reference. Returns null if there is none.
void* got(const PythonInterface& python, void* getters_of, void* object, const char* searched) {
  for (const auto* one = python.field<const Getter*>(getters_of, kTypeGetters);
       one != nullptr && one->name != nullptr; ++one) {
    if (std::strcmp(one->name, searched) == 0) return one->get(object, one->closure);
  }
  return nullptr;
}

bool append_got(const PythonInterface& python, void* getters_of, void* object, const char* searched,
                NameBuffer& name) {
  const PythonReference text(python, got(python, getters_of, object, searched));
  return append_text(python, text.get(), name);
}

bool is_heap_type(const PythonInterface& python, void* type) {
  return (python.type_flags(type) & kHeapType) != 0;
}

// A static type is named `module.name`; without a dot it is a builtin.
bool append_module(const PythonInterface& python, void* type, NameBuffer& name) {
  if (is_heap_type(python, type)) {
    return append_text(python, value_of(python, python.field(type, kTypeDictionary), "__module__"),
                       name);
  }
  const auto* const full = python.field<const char*>(type, kTypeName);
  const char* const dot = std::strrchr(full, '.');
  if (dot == nullptr)
    name.append("builtins");
  else
    name.append(full, static_cast<std::uint64_t>(dot - full));
  return true;
}

bool append_qualified(const PythonInterface& python, void* type, NameBuffer& name) {
  if (is_heap_type(python, type))
    return append_got(python, python.type_type, type, "__qualname__", name);
  const auto* const full = python.field<const char*>(type, kTypeName);
  const char* const dot = std::strrchr(full, '.');
  name.append(dot == nullptr ? full : dot + 1);
  return true;
}

bool is_private(const NameBuffer& module) {
  for (std::uint32_t i = 0; i < module.size(); ++i)
    if (module.data()[i] == '_' && (i == 0 || module.data()[i - 1] == '.')) return true;
  return false;
}

bool is_private_class(const PythonInterface& python, void* type) {
  NameBuffer module;
  return append_module(python, type, module) && is_private(module);
}

bool defines(const PythonInterface& python, void* type, const MethodDefinition* definition) {
  for (const auto* one = python.field<const MethodDefinition*>(type, kTypeMethods);
       one != nullptr && one->name != nullptr; ++one) {
    if (one == definition) return true;
  }
  return false;
}

// Returns the index in the tp_mro of the class that defines a method, or -1.
std::int64_t defining_class(const PythonInterface& python, void* order,
                            const MethodDefinition* definition) {
  const std::int64_t classes = order == nullptr ? 0 : python.tuple_size(order);
  for (std::int64_t i = 0; i < classes; ++i) {
    void* const one = python.tuple_item(order, i);
    if (is_class(python, one) && defines(python, one, definition)) return i;
  }
  return -1;
}

void append_class(const PythonInterface& python, void* type, const MethodDefinition* definition,
                  NameBuffer& name) {
  void* const order = order_of(python, type);
  const std::int64_t at = defining_class(python, order, definition);
  if (at >= 0) {
    type = python.tuple_item(order, at);
    void* const above = at > 0 ? python.tuple_item(order, at - 1) : nullptr;
    if (above != nullptr && is_class(python, above) && is_private_class(python, type) &&
        !is_private_class(python, above)) {
      type = above;
    }
  }
  if (append_module(python, type, name)) name.append(".");
  append_qualified(python, type, name);
}

void append_character(std::uint32_t character, NameBuffer& name) {
  const auto byte = [](std::uint32_t value) { return static_cast<char>(value); };
  if (character < 0x80) {
    const char one = byte(character);
    name.append(&one, 1);
  } else if (character < 0x800) {
    const char two[] = {byte(0xC0 | character >> 6), byte(0x80 | (character & 0x3F))};
    name.append(two, sizeof(two));
  } else if (character >= 0xD800 && character < 0xE000) {
    constexpr char kDigits[] = "0123456789abcdef";
    const char escape[] = {'\\',
                           'u',
                           'd',
                           kDigits[character >> 8 & 0xF],
                           kDigits[character >> 4 & 0xF],
                           kDigits[character & 0xF]};
    name.append(escape, sizeof(escape));
  } else if (character < 0x10000) {
    const char three[] = {byte(0xE0 | character >> 12), byte(0x80 | (character >> 6 & 0x3F)),
                          byte(0x80 | (character & 0x3F))};
    name.append(three, sizeof(three));
  } else {
    const char four[] = {byte(0xF0 | character >> 18), byte(0x80 | (character >> 12 & 0x3F)),
                         byte(0x80 | (character >> 6 & 0x3F)), byte(0x80 | (character & 0x3F))};
    name.append(four, sizeof(four));
  }
}

}  // namespace

void NameBuffer::append(const char* text, std::uint64_t size) {
  const std::uint64_t room = sizeof(text_) - size_;
  const std::uint64_t taken = size < room ? size : room;
  std::memcpy(text_ + size_, text, taken);
  size_ += static_cast<std::uint32_t>(taken);
}

void NameBuffer::append(const char* text) {
  append(text, std::strlen(text));
}

bool append_text(const PythonInterface& python, void* text, NameBuffer& name) {
  if (!is_text(python, text)) return false;
  const std::int64_t length = python.text_length(text);
  for (std::int64_t i = 0; i < length; ++i) append_character(python.character(text, i), name);
  return true;
}

void* field_of_code(const PythonInterface& python, void* code, const char* name) {
  return object_in(python, python.code_type, code, name);
}

int number_in_code(const PythonInterface& python, void* code, const char* name) {
  const char* const field = member_of(python, python.code_type, code, name);
  return field == nullptr ? 0 : *reinterpret_cast<const int*>(field);
}

void* variable_names_of_code(const PythonInterface& python, void* code) {
  constexpr char kNames[] = "co_varnames";
  void* names = field_of_code(python, code, kNames);
  if (names != nullptr)
    python.take_reference(names);
  else
    names = got(python, python.code_type, code, kNames);
  if (names != nullptr && !has_flag(python, names, kTupleSubclass)) {
    python.drop_reference(names);
    return nullptr;
  }
  return names;
}

const char* variables_of_frame(const PythonInterface& python, const void* frame) {
  // The last field of a frame is the first of its variables.
  const auto size = python.field<std::uint64_t>(python.frame_type, kTypeBasicSize);
  return static_cast<const char*>(frame) + size - sizeof(void*);
}

void name_python_function(const PythonInterface& python, void* frame, void* code,
                          NameBuffer& name) {
  const PythonReference globals(
      python, python.frame_globals != nullptr ? python.frame_globals(frame) : nullptr);
  void* const variables =
      globals ? globals.get() : object_in(python, python.frame_type, frame, "f_globals");
  if (append_text(python, value_of(python, variables, "__name__"), name)) name.append(".");
  if (append_text(python, field_of_code(python, code, "co_qualname"), name)) return;
  void* const function =
      python.minor < 11 ? find_function_of_frame(python, frame, variables, code) : nullptr;
  if (function == nullptr ||
      !append_got(python, python.python_function_type, function, "__qualname__", name)) {
    append_text(python, field_of_code(python, code, "co_name"), name);
  }
}

MethodDefinition* definition_of(const PythonInterface& python, void* function) {
  return python.field<MethodDefinition*>(function, kFunctionDefinition);
}

void* class_of_builtin(const PythonInterface& python, void* function) {
  void* const self = python.function_self(function);
  if (self == nullptr || is_class(python, self))
    return self;  // For a class method, this is the class.
  void* const type = python.type(self);
  // pybind11 functions have a capsule.
  return python.is_subtype(type, python.module_type) != 0 ||
                 python.is_subtype(type, python.capsule_type) != 0
             ? nullptr
             : type;
}

const char* type_name_of_builtin(const PythonInterface& python, void* function) {
  void* const type = class_of_builtin(python, function);
  void* const order = type == nullptr ? nullptr : order_of(python, type);
  const std::int64_t at = defining_class(python, order, definition_of(python, function));
  return at < 0 ? nullptr : python.field<const char*>(python.tuple_item(order, at), kTypeName);
}

void name_builtin(const PythonInterface& python, void* function, NameBuffer& name) {
  const MethodDefinition* const definition = definition_of(python, function);
  void* const type = class_of_builtin(python, function);
  const char* const method_name = definition->name == nullptr ? "" : definition->name;
  if (append_text(python, python.field(function, kFunctionModule), name)) {
    if (method_name[0] == '\0') return;  // pybind11 function objects may have no name.
    name.append(".");
    NameBuffer qualified;
    // torch.conv2d is `_VariableFunctionsClass.conv2d` of the module torch.
    if (type != nullptr && append_qualified(python, type, qualified) &&
        qualified.data()[0] != '_') {
      name.append(qualified.data(), qualified.size());
      name.append(".");
    }
  } else if (type != nullptr) {
    append_class(python, type, definition, name);
    name.append(".");
  }
  name.append(method_name);
}

}  // namespace optrace::agent

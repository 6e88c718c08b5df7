#include "tracer/agent/python_names.h"

#include <cstring>
#include <initializer_list>

namespace optrace::agent {

namespace {

constexpr int kMostWrappers = 8;  // Decorators on one function.

// Appends a str attribute. False, with no error set, when there is none.
bool append_attribute(const PythonInterface& python, void* object, const char* attribute,
                      NameBuffer& name) {
  const PythonReference value(python, python.attribute(object, attribute));
  std::int64_t size = 0;
  const char* text = nullptr;
  if (value) {
    const PythonReference type(python, python.type_of(value.get()));
    if (python.is_subtype(type.get(), python.text_type) != 0) {
      text = python.utf8(value.get(), &size);
    }
  }
  if (text == nullptr) {
    python.error_clear();
    return false;
  }
  name.append(text, static_cast<std::uint64_t>(size));
  return true;
}

void* attribute_or_null(const PythonInterface& python, void* object, const char* attribute) {
  void* const value = python.attribute(object, attribute);
  if (value == nullptr) {
    python.error_clear();
  }
  return value;
}

void* item_or_null(const PythonInterface& python, void* mapping, void* key) {
  void* const value = python.item(mapping, key);
  if (value == nullptr) {
    python.error_clear();
  }
  return value;
}

// The function object that runs `code`, reached from `object` through what decorators leave
// behind, as a new reference; null if it is not to be found.
void* unwrap_to_code(const PythonInterface& python, void* object, void* code) {
  python.take_reference(object);
  for (int i = 0; i < kMostWrappers; ++i) {
    const PythonReference current(python, object);
    const PythonReference own(python, attribute_or_null(python, object, "__code__"));
    if (own.get() == code) {
      python.take_reference(object);
      return object;
    }
    void* next = nullptr;
    for (const char* const link : {"__wrapped__", "__func__", "fget"}) {
      if (next == nullptr) {
        next = attribute_or_null(python, object, link);
      }
    }
    if (next == nullptr) {
      return nullptr;
    }
    object = next;
  }
  python.drop_reference(object);
  return nullptr;
}

// Looks `key` up in `mapping` and follows decorators.
void* find_function(const PythonInterface& python, void* mapping, void* key, void* code) {
  const PythonReference value(python, item_or_null(python, mapping, key));
  return value ? unwrap_to_code(python, value.get(), code) : nullptr;
}

void* find_in_classes(const PythonInterface& python, void* type, void* key, void* code) {
  const PythonReference order(python, attribute_or_null(python, type, "__mro__"));
  const std::int64_t classes = order ? python.tuple_size(order.get()) : 0;
  for (std::int64_t i = 0; i < classes; ++i) {
    void* const one = python.tuple_item(order.get(), i);
    const PythonReference members(python, attribute_or_null(python, one, "__dict__"));
    void* const found = members ? find_function(python, members.get(), key, code) : nullptr;
    if (found != nullptr) {
      return found;
    }
  }
  python.error_clear();
  return nullptr;
}

// Before 3.11 a code object has no qualified name, but the function has: look for it among the
// module's globals, and in the classes of the first argument. Null for a function in a function.
void* find_function_of_frame(const PythonInterface& python, void* frame, void* globals,
                             void* code) {
  const PythonReference key(python, attribute_or_null(python, code, "co_name"));
  if (!key) {
    return nullptr;
  }
  void* found = find_function(python, globals, key.get(), code);
  const PythonReference names(python, attribute_or_null(python, code, "co_varnames"));
  const PythonReference arguments(python, attribute_or_null(python, code, "co_argcount"));
  if (found != nullptr || !names || !arguments || python.number(arguments.get()) < 1) {
    return found;
  }
  const PythonReference locals(python, attribute_or_null(python, frame, "f_locals"));
  void* const first_name = python.tuple_item(names.get(), 0);
  if (!locals || first_name == nullptr) {
    python.error_clear();
    return nullptr;
  }
  const PythonReference first(python, item_or_null(python, locals.get(), first_name));
  if (!first) {
    return nullptr;
  }
  const PythonReference type(python, python.type_of(first.get()));
  found = find_in_classes(python, type.get(), key.get(), code);
  if (found == nullptr && python.is_subtype(type.get(), python.type_type) != 0) {
    found = find_in_classes(python, first.get(), key.get(), code);
  }
  return found;
}

bool is_private(const NameBuffer& module) {
  for (std::uint32_t i = 0; i < module.size(); ++i) {
    if (module.data()[i] == '_' && (i == 0 || module.data()[i - 1] == '.')) {
      return true;
    }
  }
  return false;
}

bool is_private_class(const PythonInterface& python, void* type) {
  NameBuffer module;
  return append_attribute(python, type, "__module__", module) && is_private(module);
}

// Where in the method resolution order `method_name` is defined; -1 if nowhere.
std::int64_t defining_class(const PythonInterface& python, void* order, const char* method_name) {
  const PythonReference key(python, python.text(method_name));
  const std::int64_t classes = python.tuple_size(order);
  for (std::int64_t i = 0; key && i < classes; ++i) {
    void* const one = python.tuple_item(order, i);
    const PythonReference members(python, attribute_or_null(python, one, "__dict__"));
    if (members) {
      const PythonReference member(python, item_or_null(python, members.get(), key.get()));
      if (member) {
        return i;
      }
    }
  }
  python.error_clear();
  return -1;
}

void append_class(const PythonInterface& python, void* type, const char* method_name,
                  NameBuffer& name) {
  const PythonReference order(python, attribute_or_null(python, type, "__mro__"));
  if (order) {
    const std::int64_t at = defining_class(python, order.get(), method_name);
    if (at >= 0) {
      void* const definer = python.tuple_item(order.get(), at);
      void* const above = at > 0 ? python.tuple_item(order.get(), at - 1) : nullptr;
      const bool show_above =
          above != nullptr && is_private_class(python, definer) && !is_private_class(python, above);
      type = show_above ? above : definer;
    }
  }
  if (append_attribute(python, type, "__module__", name)) {
    name.append(".");
  }
  append_attribute(python, type, "__qualname__", name);
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

void name_python_function(const PythonInterface& python, void* frame, void* code,
                          NameBuffer& name) {
  const PythonReference globals(python, attribute_or_null(python, frame, "f_globals"));
  if (globals) {
    const PythonReference key(python, python.text("__name__"));
    const PythonReference module(python,
                                 key ? item_or_null(python, globals.get(), key.get()) : nullptr);
    std::int64_t size = 0;
    const char* const text = module ? python.utf8(module.get(), &size) : nullptr;
    if (text != nullptr) {
      name.append(text, static_cast<std::uint64_t>(size));
      name.append(".");
    }
    python.error_clear();
  }
  if (append_attribute(python, code, "co_qualname", name)) {
    return;
  }
  const PythonReference function(
      python, globals ? find_function_of_frame(python, frame, globals.get(), code) : nullptr);
  if (!function || !append_attribute(python, function.get(), "__qualname__", name)) {
    append_attribute(python, code, "co_name", name);
  }
}

void* class_of_builtin(const PythonInterface& python, void* function) {
  void* const self = python.function_self(function);
  if (self == nullptr) {
    python.error_clear();
    return nullptr;
  }
  void* const type = python.type_of(self);
  if (python.is_subtype(type, python.type_type) != 0) {  // A class method.
    python.drop_reference(type);
    python.take_reference(self);
    return self;
  }
  if (python.is_subtype(type, python.module_type) != 0 ||
      python.is_subtype(type, python.capsule_type) != 0) {  // pybind11 keeps its own in a capsule.
    python.drop_reference(type);
    return nullptr;
  }
  return type;
}

void name_builtin(const PythonInterface& python, void* function, const char* method_name,
                  NameBuffer& name) {
  const PythonReference type(python, class_of_builtin(python, function));
  if (append_attribute(python, function, "__module__", name)) {
    if (method_name == nullptr || method_name[0] == '\0') {
      return;  // pybind11's function objects may have no name.
    }
    name.append(".");
    NameBuffer qualified;
    if (type && append_attribute(python, function, "__qualname__", qualified) &&
        qualified.data()[0] != '_') {  // torch.conv2d is `_VariableFunctionsClass.conv2d` of torch.
      name.append(qualified.data(), qualified.size());
      return;
    }
  } else if (type) {
    append_class(python, type.get(), method_name, name);
    name.append(".");
  }
  name.append(method_name);
}

}  // namespace optrace::agent

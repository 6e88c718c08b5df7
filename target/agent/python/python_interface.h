#pragma once

#include <cstdint>

namespace optrace::agent {

/// CPython's C API as found in the process, for every version from 3.9 on, for which no single
/// version's headers would do. Objects are opaque, except where a comment states which fields are
/// read.
struct PythonInterface {
  using Object = void;
  using ProfileFunction = int (*)(Object* self, Object* frame, int event, Object* argument);

  int (*gil_ensure)();
  void (*acquire_thread)(void* thread);
  void (*gil_release)(int state);
  int (*is_initialized)();
  void (*set_profile)(ProfileFunction function, Object* self);
  Object* (*frame_code)(Object* frame);  ///< New reference, like all results not marked otherwise.
  Object* (*frame_back)(Object* frame);
  Object* (*current_frame)();  ///< Borrowed.
  int (*frame_line)(Object* frame);
  /// Use only for the interpreter's own types.
  Object* (*attribute)(Object* object, const char* name);
  Object* (*type_of)(Object* object);
  int (*is_subtype)(Object* type, Object* base);
  Object* (*function_self)(Object* function);  ///< Borrowed; null for a static method.
  Object* (*system_object)(const char* name);  ///< Borrowed.
  std::int64_t (*tuple_size)(Object* tuple);
  Object* (*tuple_item)(Object* tuple, std::int64_t index);  ///< Borrowed.
  std::int64_t (*text_length)(Object* text);
  std::uint32_t (*character)(Object* text, std::int64_t index);
  /// Returns the next entry of a dictionary as borrowed references. Does not hash or compare.
  int (*next_entry)(Object* dictionary, std::int64_t* position, Object** key, Object** value);
  unsigned long (*type_flags)(Object* type);
  Object* (*code_of_function)(Object* function);  ///< Borrowed.
  Object** (*attributes_of)(Object* object);      ///< Address of its __dict__ slot; null: none.
  Object* (*frame_globals)(Object* frame);        ///< Null before 3.11.
  long (*number)(Object* integer);
  void (*error_fetch)(Object** type, Object** value, Object** traceback);
  void (*error_restore)(Object* type, Object* value, Object* traceback);
  void (*error_clear)();
  void (*take_reference)(Object* object);
  void (*drop_reference)(Object* object);
  Object* none;
  Object* function_type;  ///< PyCFunction_Type; the other types are named likewise.
  Object* module_type;
  Object* capsule_type;
  Object* type_type;
  Object* base_type;  ///< PyBaseObject_Type.
  Object* code_type;
  Object* frame_type;
  Object* python_function_type;
  Object* class_method_type;
  Object* static_method_type;
  Object* property_type;
  Object* cell_type;
  Object* bytes_type;
  std::uint64_t header_size;  ///< sizeof(PyObject) in this build.
  std::uint32_t minor;        ///< The interpreter's minor version; 0 if it is not CPython 3.

  const char* (*version)();
  const char* (*bytes)(Object* bytes);
  std::int64_t (*bytes_size)(Object* bytes);
  void* runtime;  ///< Address of _PyRuntime; null if the symbol is not visible.
  /// Returns the frame's current instruction as an offset in bytes. Null before 3.11.
  int (*frame_instruction)(Object* frame);
  /// Returns a variable of a frame, or null with an exception set. Null before 3.12.
  Object* (*frame_variable)(Object* frame, Object* name);
  /// Turns garbage collections off, or on, and returns whether they were on. Null before 3.10.
  int (*gc_disable)();
  int (*gc_enable)();
  void* (*running_thread)();  ///< Thread state of the caller, which holds the GIL.

  // The following require has_threads() and the GIL. They apply to any thread known to Python.
  using Thread = void;
  using Interpreter = void;
  Interpreter* (*main_interpreter)();
  Interpreter* (*interpreter_of)(Thread* thread);
  Thread* (*first_thread)(Interpreter* interpreter);
  Thread* (*next_thread)(Thread* thread);
  Thread* (*current_thread)();
  Thread* (*calling_thread)();  ///< Thread state of the caller, without the GIL.
  /// Increases with each new thread of an interpreter.
  std::uint64_t (*thread_id)(Thread* thread);
  int (*set_profile_of)(Thread* thread, ProfileFunction function, Object* self);

  bool has_threads() const { return set_profile_of != nullptr; }

  /// Returns a field of an object, `offset` bytes after its header.
  template <typename T = Object*>
  T field(const Object* object, std::uint64_t offset) const {
    return *reinterpret_cast<const T*>(static_cast<const char*>(object) + header_size + offset);
  }
  /// Returns the type as a borrowed reference: the last word of the header.
  Object* type(const Object* object) const {
    return *reinterpret_cast<Object* const*>(static_cast<const char*>(object) + header_size -
                                             sizeof(Object*));
  }

  /// Returns false if the process has no Python, or one that lacks required functions.
  bool find();

 private:
  bool measure();
};

/// Drops a reference at the end of the scope.
class PythonReference {
 public:
  PythonReference(const PythonInterface& python, void* object) : python_(python), object_(object) {}
  ~PythonReference() {
    if (object_ != nullptr) python_.drop_reference(object_);
  }
  PythonReference(const PythonReference&) = delete;
  PythonReference& operator=(const PythonReference&) = delete;

  void* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  const PythonInterface& python_;
  void* object_;
};

}  // namespace optrace::agent

#pragma once

#include <cstdint>

namespace optrace::agent {

/// CPython's C interface as found in the process, for every version from 3.9 on: no header of any
/// one of them would do. Objects are opaque; what is read directly is said where it is read.
struct PythonInterface {
  using Object = void;
  using ProfileFunction = int (*)(Object* self, Object* frame, int event, Object* argument);

  int (*gil_ensure)();
  void (*gil_release)(int state);
  int (*is_initialized)();
  void (*set_profile)(ProfileFunction function, Object* self);
  Object* (*frame_code)(Object* frame);  ///< New reference, as all but where said.
  Object* (*frame_back)(Object* frame);
  Object* (*current_frame)();  ///< Borrowed.
  int (*frame_line)(Object* frame);
  Object* (*attribute)(Object* object, const char* name);  ///< Only of the interpreter's own types.
  Object* (*type_of)(Object* object);
  int (*is_subtype)(Object* type, Object* base);
  Object* (*function_self)(Object* function);  ///< Borrowed; null for a static method.
  Object* (*system_object)(const char* name);  ///< Borrowed.
  std::int64_t (*tuple_size)(Object* tuple);
  Object* (*tuple_item)(Object* tuple, std::int64_t index);  ///< Borrowed.
  std::int64_t (*text_length)(Object* text);
  std::uint32_t (*character)(Object* text, std::int64_t index);
  /// The next entry of a dictionary, borrowed. Hashes and compares nothing.
  int (*next_entry)(Object* dictionary, std::int64_t* position, Object** key, Object** value);
  unsigned long (*type_flags)(Object* type);
  Object* (*code_of_function)(Object* function);  ///< Borrowed.
  Object** (*attributes_of)(Object* object);      ///< Where its __dict__ is; null: it has none.
  Object* (*frame_globals)(Object* frame);        ///< Null before 3.11.
  long (*number)(Object* integer);
  void (*error_fetch)(Object** type, Object** value, Object** traceback);
  void (*error_restore)(Object* type, Object* value, Object* traceback);
  void (*error_clear)();
  void (*take_reference)(Object* object);
  void (*drop_reference)(Object* object);
  Object* none;
  Object* function_type;  ///< PyCFunction_Type and so on.
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
  std::uint64_t header_size;  ///< sizeof(PyObject) of this build.
  std::uint32_t minor;        ///< The interpreter's minor version; 0 if it is not CPython 3.

  const char* (*version)();
  const char* (*bytes)(Object* bytes);
  std::int64_t (*bytes_size)(Object* bytes);
  void* runtime;  ///< _PyRuntime; null where it is not to be seen.
  /// The frame's instruction as an offset in bytes; null before 3.11.
  int (*frame_instruction)(Object* frame);
  void* (*running_thread)();  ///< The thread state of the caller, which has the GIL.

  // Only where has_threads(): of any thread that Python knows, with the GIL held.
  using Thread = void;
  using Interpreter = void;
  Interpreter* (*main_interpreter)();
  Interpreter* (*interpreter_of)(Thread* thread);
  Thread* (*first_thread)(Interpreter* interpreter);
  Thread* (*next_thread)(Thread* thread);
  Thread* (*current_thread)();
  Thread* (*calling_thread)();                 ///< The same, without the GIL.
  std::uint64_t (*thread_id)(Thread* thread);  ///< Younger threads of an interpreter have larger.
  int (*set_profile_of)(Thread* thread, ProfileFunction function, Object* self);

  bool has_threads() const { return set_profile_of != nullptr; }

  /// A field of an object, `offset` bytes behind its header.
  template <typename T = Object*>
  T field(const Object* object, std::uint64_t offset) const {
    return *reinterpret_cast<const T*>(static_cast<const char*>(object) + header_size + offset);
  }
  /// Its type, borrowed: the last word of the header.
  Object* type(const Object* object) const {
    return *reinterpret_cast<Object* const*>(static_cast<const char*>(object) + header_size -
                                             sizeof(Object*));
  }

  /// False when the process has no Python, or one without the functions that are needed.
  bool find();

 private:
  bool measure();
};

/// A reference that is dropped at the end of the scope.
class PythonReference {
 public:
  PythonReference(const PythonInterface& python, void* object) : python_(python), object_(object) {}
  ~PythonReference() {
    if (object_ != nullptr) {
      python_.drop_reference(object_);
    }
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

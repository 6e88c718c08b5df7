#include "target/agent/python/code_objects.h"

#include "target/agent/process/system_calls.h"
#include "target/agent/python/why_not_variables.h"
#include "target/agent/recording/python_functions.h"

namespace optrace::agent {
namespace {

// Offset of tp_dealloc in PyTypeObject (Include/cpython/object.h), after the header; the same from
// 3.9 to 3.14.
constexpr std::uint64_t kTypeEnd = 32;
constexpr std::uint32_t kOwnLocks = 12;  // Since 3.12, a subinterpreter may have its own GIL.

using End = void (*)(void* object);

const PythonInterface* python = nullptr;
End original = nullptr;
bool watching = false;

End& end_of(void* type) {
  return *reinterpret_cast<End*>(static_cast<char*>(type) + python->header_size + kTypeEnd);
}

// Only functions of the main interpreter are described, under its GIL.
bool is_main_interpreter() {
  return python->minor < kOwnLocks || !python->has_threads() ||
         python->interpreter_of(python->current_thread()) == python->main_interpreter();
}

// Called instead of the code object's tp_dealloc, which frees the memory.
void end_code_object(void* code) {
  if (is_main_interpreter()) {
    remove_function(address_of(code));
    remove_why_not_variables(code);
  }
  original(code);
}

}  // namespace

void watch_code_objects(const PythonInterface& interface) {
  if (watching) return;
  python = &interface;
  End& end = end_of(python->code_type);
  original = end;
  __atomic_store_n(&end, &end_code_object, __ATOMIC_RELEASE);
  watching = true;
}

void leave_code_objects() {
  // If another tp_dealloc has replaced ours and may call it, ours stays and has nothing to remove.
  if (watching && end_of(python->code_type) == end_code_object) {
    __atomic_store_n(&end_of(python->code_type), original, __ATOMIC_RELEASE);
    watching = false;
  }
}

}  // namespace optrace::agent

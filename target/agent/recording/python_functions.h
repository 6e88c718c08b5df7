#pragma once

#include <cstdint>

#include "target/agent/process/key_map.h"
#include "target/agent/recording/region.h"
#include "target/interface/recording_format.h"

namespace optrace::agent {

// The Python functions and builtins that are described in the region. No reference to the program's
// objects is held: a function is identified by the address of its code object or PyMethodDef, as
// long as that is valid. Functions with equal descriptions have the same id. When the content of
// the region is replaced, all entries are dropped.
//
// All functions here are called with the GIL held. The calling thread records nothing while it
// changes the data (Unrecorded), so the record routine may look up an address.

constexpr std::uint32_t kNoFunction = 0xFFFFFFFF;
/// "...", for all functions for which there was no room.
constexpr std::uint32_t kMergedFunction = 0;
constexpr std::uint32_t kIsCode = 0;  ///< The `check` of a code object's address.

struct FunctionDescription {
  const char* text = nullptr;  ///< The name, followed by the file.
  std::uint32_t name_size = 0;
  std::uint32_t file_size = 0;
  std::uint32_t first_line = 0;
  /// Minor version of the interpreter, which determines the format of the positions.
  std::uint32_t minor_version = 0;
  const char* positions = nullptr;  ///< Bytes of the code object; not copied.
  std::uint32_t positions_size = 0;
  bool counted = false;  ///< Calls of the function are counted.
  bool resumes = false;  ///< A generator or coroutine, which is entered for each resumption.
};

/// Counts the calls of a described function.
struct CallCount {
  recording::PythonFunction* section;  ///< Null if they are not counted.
  std::int32_t start;  ///< Of a generator: the least instruction at which it was entered.
  bool resumes;

  void count() const {
    if (section->calls + 1 != recording::kUncounted)
      __atomic_store_n(&section->calls, section->calls + 1, __ATOMIC_RELAXED);
  }
};

struct KnownFunctions {
  IdMap ids;                 ///< Ids by address.
  std::uint32_t region = 0;  ///< Serial of the region that contains the descriptions.
};
extern constinit KnownFunctions
    known_functions;  // NOLINT(bugprone-dynamic-static-initializers): constinit.

/// Returns the id of the function at an address that was described with this `check`, or
/// kNoFunction. Call only while recording.
inline std::uint32_t known_function(std::uint64_t address, std::uint32_t check) {
  if (known_functions.region != current_region()->serial) return kNoFunction;
  const IdEntry* const entry = known_functions.ids.find(address);
  return entry != nullptr && entry->check == check ? entry->id : kNoFunction;
}

/// Returns true if another function would get the id kMergedFunction, so that its name is not
/// needed.
bool functions_are_full();

/// Describes a function in the region, unless an equal one is there, and stores its id. Returns
/// kMergedFunction if there is no room for it, kNoFunction if there is no room at all.
std::uint32_t describe_function(std::uint64_t address, std::uint32_t check,
                                const FunctionDescription& function);

/// Returns null if the calls of this function are not counted.
CallCount* count_of_calls(std::uint32_t id);

/// Removes an address that is no longer valid.
void remove_function(std::uint64_t address);

/// Removes all functions and frees the memory.
void clear_functions();

}  // namespace optrace::agent

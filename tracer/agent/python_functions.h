#pragma once

#include <cstdint>

#include "tracer/agent/key_map.h"
#include "tracer/agent/region.h"

namespace optrace::agent {

// The Python functions and builtins that the region describes. Of the program's objects nothing is
// kept: a function is known by an address (of its code object or its PyMethodDef) for as long as
// that means the same, and functions whose descriptions are equal have one id. When the region's
// content changes, all begins anew.
//
// All of this is called with the GIL held, and what changes it by threads that record nothing
// meanwhile (Unrecorded): then the record routine may look an address up.

constexpr std::uint32_t kNoFunction = 0xFFFFFFFF;
constexpr std::uint32_t kMergedFunction = 0;  ///< "...": all for which there was no room.
constexpr std::uint32_t kIsCode = 0;          ///< As the check of a code object's address.

struct FunctionDescription {
  const char* text = nullptr;  ///< The name, then the file.
  std::uint32_t name_size = 0;
  std::uint32_t file_size = 0;
  std::uint32_t first_line = 0;
  std::uint32_t minor_version = 0;  ///< Of the interpreter, which decides what positions are.
  const char* positions = nullptr;  ///< The code object's own bytes.
  std::uint32_t positions_size = 0;
};

struct KnownFunctions {
  IdMap ids;                 ///< By address.
  std::uint32_t region = 0;  ///< They are described in the region of this serial.
};
extern constinit KnownFunctions
    known_functions;  // NOLINT(bugprone-dynamic-static-initializers): constinit.

/// The id of the function at an address, with the `check` that it was described with; kNoFunction
/// where it has none. While recording runs.
inline std::uint32_t known_function(std::uint64_t address, std::uint32_t check) {
  if (known_functions.region != current_region()->serial) {
    return kNoFunction;
  }
  const IdEntry* const entry = known_functions.ids.find(address);
  return entry != nullptr && entry->check == check ? entry->id : kNoFunction;
}

/// Whether another function would be called "...": it need not be named, then.
bool functions_are_full();

/// Tells the region's reader of a function, if that doesn't know one like it, and keeps its id. The
/// result is kMergedFunction where there is no room for it, kNoFunction where there is none at all.
std::uint32_t describe_function(std::uint64_t address, std::uint32_t check,
                                const FunctionDescription& function);

/// The address means nothing any more.
void forget_function(std::uint64_t address);

/// Forgets all of them, and gives the memory back.
void forget_functions();

}  // namespace optrace::agent

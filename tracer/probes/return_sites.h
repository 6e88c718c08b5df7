#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tracer/elf/module_symbols.h"

namespace optrace {

/// Returns the number of bytes of rax, 1 to 8, that hold what the function with this (mangled) name
/// returns; 0 if its value is not to be recorded.
using ReturnedBytes = std::function<std::uint32_t(std::string_view symbol)>;

/// The functions whose returned values are recorded.
struct KnownResults {
  ReturnedBytes bytes;   ///< Empty if no value is recorded.
  std::string identity;  ///< A part of file names that differs if `bytes` does.
};

/// The instruction after a call.
struct ReturnSite {
  std::uint64_t address = 0;  ///< As linked.
  std::uint32_t bytes = 0;    ///< Of the value in rax.
  /// A 5-byte jump may be placed there: the bytes belong to instructions of the same function that
  /// follow each other, and no branch can land behind the first one.
  bool room_for_jump = false;
};

/// Returns the instructions to which calls of such functions return, by address: those after
/// `call f`, also through the procedure linkage table or a slot of the global offset table. Calls
/// through a register or a pointer, of virtual functions too, name no function: those are included
/// whose result is tested as a boolean.
std::vector<ReturnSite> find_return_sites(const ModuleSymbols& module,
                                          const ReturnedBytes& returned_bytes);

}  // namespace optrace

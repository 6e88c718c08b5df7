#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/elf/module_symbols.h"

namespace optrace {

/// What is recorded of a function's result.
struct RecordedResult {
  std::uint32_t bytes = 0;  ///< Of rax that hold it, 1 to 8; 0: nothing is recorded.
  bool is_pointer = false;  ///< Only whether it is null is recorded.
  /// It is recorded only where the code after the call tests or compares it.
  bool if_tested = false;

  bool operator==(const RecordedResult&) const = default;
};

/// Returns what is recorded of the result of the function with this (mangled) name.
using ResultOf = std::function<RecordedResult(std::string_view symbol)>;

/// The functions whose returned values are recorded.
struct KnownResults {
  ResultOf of;           ///< Empty if no value is recorded.
  std::string identity;  ///< A part of file names that differs if `of` does.
};

/// The instruction after a call.
struct ReturnSite {
  std::uint64_t address = 0;  ///< As linked.
  RecordedResult result;
  /// A 5-byte jump may be placed there: the bytes belong to instructions of the same function that
  /// follow each other, and no branch can land behind the first one.
  bool room_for_jump = false;
};

/// Returns the instructions to which calls of these functions return, by address, where a result is
/// recorded: those after `call f`, also through the procedure linkage table or a slot of the global
/// offset table. Calls through a register or a pointer, of virtual functions too, name no function:
/// those are included whose result is tested as a boolean. Both lists are sorted by address.
std::vector<ReturnSite> find_return_sites(const ModuleSymbols& module,
                                          std::vector<NamedAddress> functions,
                                          std::vector<NamedAddress> slots,
                                          const ResultOf& result_of);

}  // namespace optrace

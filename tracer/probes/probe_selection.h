#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/elf/module_symbols.h"
#include "target/interface/plan_format.h"

namespace optrace {

/// Incremented with every change to the table of selected functions, and to which results are
/// recorded. Plans that were cached under
/// another version are made again.
constexpr std::uint32_t kSelectionVersion = 28;

/// Returns true if the function's first two arguments are worth recording: dispatch keys, or the
/// data that the threads of an OpenMP region share.
bool has_telling_arguments(std::string_view symbol);

/// Returns the names of the functions that are worth a probe, by address. In a stripped module,
/// only exported functions can be identified.
std::vector<NamedAddress> select_functions(const ModuleSymbols& module);

/// Returns the slots of the global offset table for functions that are worth a probe, by address.
std::vector<NamedAddress> select_slots(const ModuleSymbols& module);

/// Returns the address (as linked) of the mutex of RecordFunction's callbacks, if the module
/// contains it. Each thread takes it at its next op call after callbacks were added or removed,
/// which happens when ops are recorded. A child that is forked at that moment would wait for it
/// forever.
std::optional<std::uint64_t> fork_lock_of(const ModuleSymbols& module);

/// Returns the code (as linked) of CPython's evaluation loop and of its split-off parts; none if
/// the module does not contain it.
std::vector<plan::Piece> evaluation_loop_of(const ModuleSymbols& module);

/// Returns a sentence for the user if the module is one of torch's own libraries and stripped; else
/// empty.
std::string stripped_warning(const ModuleSymbols& module);

}  // namespace optrace

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tracer/elf/module_symbols.h"

namespace optrace {

/// Raised with every change to the table of selected functions: plans that were kept under another
/// version are made again.
constexpr std::uint32_t kSelectionVersion = 12;

/// One row of the table that says which functions can be a step of an op's path.
struct SelectionRule {
  enum class Kind : std::uint8_t {
    scope,       ///< `name` is the namespace or class in which the function lies, at any depth.
    directly,    ///< `name` is the namespace in which the function lies itself.
    function,    ///< `name` starts the name of a C++ function at global scope.
    c_function,  ///< `name` starts the name of a C function; a final `$` pins its end.
    part         ///< `name` occurs in the symbol, of whatever language.
  };
  Kind kind;
  std::string_view name;
  std::string_view text;  ///< Must occur in the mangled name as well; empty: anything goes.
};

/// The table, in the order in which it is tried.
std::span<const SelectionRule> selection_rules();

/// Which row selects a function of this (mangled or C) name, if any does.
std::optional<std::size_t> selecting_rule(std::string_view symbol);

/// Whether a function hands an op on to the next dispatch key, and so takes the remaining keys as
/// its first parameter: a c10::DispatchKeySet, which a register holds.
bool takes_dispatch_keys(std::string_view symbol);

/// Whether the first two arguments of a function are worth recording: dispatch keys, or what the
/// threads of an OpenMP region share.
bool has_telling_arguments(std::string_view symbol);

/// The functions of a module that are worth a probe: their addresses as linked, ascending, each
/// once. In a stripped module only exported functions can be told apart.
std::vector<std::uint64_t> select_functions(const ModuleSymbols& module);

/// The mutex (as linked) of RecordFunction's callbacks, where this module has them. Each thread
/// takes it when it next calls an op after callbacks were added or removed, which recording ops
/// does. A child that was forked in such a moment would wait for it for ever.
std::optional<std::uint64_t> fork_lock_of(const ModuleSymbols& module);

/// A sentence for the user where one of torch's own libraries is stripped, else empty.
std::string stripped_warning(const ModuleSymbols& module);

}  // namespace optrace

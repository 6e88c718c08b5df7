#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "platform/elf/module_symbols.h"

namespace optrace {

/// A class with virtual functions, as a library's code has it for the C++ runtime (Itanium C++ ABI,
/// sections 2.5 and 2.9.5): from its virtual table (`_ZTV`) and its type information (`_ZTI`).
/// Strings live as long as the ModuleSymbols.
struct PolymorphicClass {
  std::string_view name;  ///< Mangled, `N3c109AllocatorE`.
  /// True for a class in an anonymous namespace: others of the same name may exist.
  bool local = false;
  bool has_table = false;  ///< False if the library has only its type information.
  bool has_pure_function = false;
  std::vector<std::string_view> bases;  ///< Names of its direct bases.
  /// For each base its position in the result, or kElsewhere if another library has it.
  std::vector<std::size_t> base_positions;
  /// Symbols of the functions in its virtual table, including inherited ones and thunks.
  std::vector<std::string_view> functions;

  static constexpr std::size_t kElsewhere = static_cast<std::size_t>(-1);
};

/// Returns the classes with virtual functions of a library, in the order of their type information;
/// none if it is stripped or has no such classes.
std::vector<PolymorphicClass> read_virtual_tables(const ModuleSymbols& module);

}  // namespace optrace

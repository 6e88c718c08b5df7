#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lookup/locate/locate_query.h"

namespace optrace {

/// A name in the symbol tables of torch's libraries.
struct WheelSymbol {
  std::string symbol;       ///< As in the table, without a version.
  std::string library;      ///< The file that defines it: `libtorch_cpu.so`, `libcudart.so.12`.
  std::string imported_by;  ///< The library of torch that imports it; empty if that defines it.
};

/// The symbol tables of the libraries of an installed torch: symbols that they define, from any
/// source, and symbols that they import from other libraries. The tables are read at each look-up.
class WheelSymbols {
 public:
  /// `libraries`: `.../site-packages/torch/lib`. The folder may be missing; it then has no names.
  explicit WheelSymbols(std::filesystem::path libraries) : libraries_(std::move(libraries)) {}

  /// Returns the libraries, sorted by path.
  std::vector<std::filesystem::path> files() const;

  /// Returns at most `limit` symbols for a name: a C function of that name, or C++ functions whose
  /// names end with these components. Unreadable libraries are skipped.
  std::vector<WheelSymbol> find(const NameQuery& query, std::size_t limit) const;

  /// Returns true if a symbol that contains `part` fits, and also if no library can be read,
  /// because nothing is known in that case.
  bool any_with(std::string_view part, const std::function<bool(std::string_view)>& fits) const;

 private:
  std::filesystem::path libraries_;
};

}  // namespace optrace

#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "report/locate/locate_query.h"

namespace optrace {

/// A name in the symbol tables of a torch's libraries.
struct WheelSymbol {
  std::string symbol;       ///< As the table has it, without a version.
  std::string library;      ///< The file that defines it: `libtorch_cpu.so`, `libcudart.so.12`.
  std::string imported_by;  ///< The library of torch's that asks for it; empty if that defines it.
};

/// The symbol tables of the libraries of an installed torch: what they define, from whatever
/// source, and what they ask other libraries for. They are read when something is looked up.
class WheelSymbols {
 public:
  /// `libraries`: `.../site-packages/torch/lib`. What is not there has no names.
  explicit WheelSymbols(std::filesystem::path libraries) : libraries_(std::move(libraries)) {}

  /// What a name stands for, at most `limit`: a C function of that name, or C++ functions with
  /// these components at the end of their names. Empty where a library can't be read.
  std::vector<WheelSymbol> find(const NameQuery& query, std::size_t limit) const;

  /// Whether a symbol that holds `part` fits. True as well where no library can be read: nothing is
  /// known then.
  bool any_with(std::string_view part, const std::function<bool(std::string_view)>& fits) const;

 private:
  std::vector<std::filesystem::path> files() const;

  std::filesystem::path libraries_;
};

}  // namespace optrace

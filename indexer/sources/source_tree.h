#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "indexer/sources/python_installation.h"

namespace optrace {

/// A PyTorch source tree.
struct SourceTree {
  std::filesystem::path folder;  ///< Absolute.
  std::string version;           ///< `2.6.0`: the leading numbers in version.txt.
};

/// Throws Error(usage) if `folder` does not exist, is not a PyTorch tree, or lacks a required file,
/// which the message names.
SourceTree open_source_tree(const std::filesystem::path& folder);

/// Groups of units that share compiler arguments and a precompiled header.
enum class UnitGroup { aten, cpu_kernels, csrc, csrc_libraries, cuda };
inline constexpr std::array kUnitGroups = {UnitGroup::aten, UnitGroup::cpu_kernels, UnitGroup::csrc,
                                           UnitGroup::csrc_libraries, UnitGroup::cuda};

struct SourceUnit {
  std::filesystem::path path;  ///< Absolute.
  std::string name;            ///< Relative to the tree or to the folder of generated code.
  UnitGroup group = UnitGroup::aten;
};

/// Returns the source files below `folder` (a tree, or the code generated for one) that are part of
/// the Linux x86-64 wheels, sorted by name.
std::vector<SourceUnit> list_units(const std::filesystem::path& folder);

/// Returns the compiler arguments for the units of a group. `stub_headers` is the folder of
/// substitutes for the headers that no wheel contains.
std::vector<std::string> compiler_arguments(UnitGroup group, const SourceTree& tree,
                                            const std::filesystem::path& generated,
                                            const PythonInstallation& python,
                                            const std::filesystem::path& stub_headers);

/// Returns the includes of a group's precompiled header, as C++ text: headers that many units of
/// the group include, and headers that few include but that take long to parse. A header that is
/// missing, or that fails without its group's macros, does not affect the others. Throws
/// Error(failed) if the installation is incomplete.
std::string precompiled_text(UnitGroup group);

/// Returns `aten`, `cpu-kernels`, ...
std::string group_name(UnitGroup group);

}  // namespace optrace

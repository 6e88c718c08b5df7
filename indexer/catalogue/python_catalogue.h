#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/store/index_contents.h"

namespace optrace {

/// Writes the names of the Python API of `python`'s torch to the file `output`, for
/// parse_python_names (catalogue_json.h): the definitions in its source, the other members of its
/// public namespaces, and which of these are bound in C++. Takes about ten seconds. Throws
/// Error(failed).
void write_python_names(const std::filesystem::path& python, const std::filesystem::path& output);

/// An entry of a table that makes C++ functions callable from Python (PyMethodDef, PyGetSetDef).
struct MethodEntry {
  std::string table;     ///< `torch_functions_shard`
  std::string name;      ///< The name in Python.
  std::string function;  ///< As spelled in the source: `THPVariable_add`, `PropertyT::getter`.
};

/// Returns the entries of all such tables in the text of a source file, except those without a
/// function.
std::vector<MethodEntry> method_entries(std::string_view text);

/// Sets the target, file and line of each builtin among the contents' Python names that a method
/// table of an indexed file binds to a C++ function. The files are read below `roots` (the source
/// tree, the generated code).
void bind_python_names(IndexContents& contents, const std::vector<std::filesystem::path>& roots);

}  // namespace optrace

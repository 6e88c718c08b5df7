#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/store/index_contents.h"

namespace optrace {

/// Writes the names of the Python API of the torch that `python` has to the file `output`, for
/// parse_python_names: what its source defines, what else its public namespaces hold, and what of
/// that is bound in C++. It takes some ten seconds. Throws Error(failed).
void write_python_names(const std::filesystem::path& python, const std::filesystem::path& output);

/// What catalogue/python_names.py wrote. Throws Error(failed) for anything else.
std::vector<IndexContents::PythonName> parse_python_names(std::string_view json_lines);

/// An entry of a table that makes C++ functions callable from Python (PyMethodDef, PyGetSetDef).
struct MethodEntry {
  std::string table;     ///< `torch_functions_shard`
  std::string name;      ///< In Python.
  std::string function;  ///< As the source spells it, `THPVariable_add`, `PropertyT::getter`.
};

/// The entries of all such tables in a source file's text; those without a function are left out.
std::vector<MethodEntry> method_entries(std::string_view text);

/// Gives each builtin among the contents' Python names the C++ function that it is bound to, and
/// where that is, if a method table of an indexed file says so. Those files are looked for below
/// `roots` (the source tree, the generated code).
void bind_python_names(IndexContents& contents, const std::vector<std::filesystem::path>& roots);

}  // namespace optrace

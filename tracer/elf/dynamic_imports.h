#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace optrace {

/// A symbol that an ELF file asks the dynamic linker for.
struct DynamicImport {
  std::string name;
  std::string version;  ///< "libcudart.so.12" of cudaMalloc@libcudart.so.12; empty: none.
  std::string library;  ///< The file that the version is said to be in; empty: none.
  bool weak = false;    ///< The program can do without.
};

struct DynamicImports {
  std::vector<std::string> needed;  ///< DT_NEEDED, in the file's order.
  std::vector<DynamicImport> symbols;
};

/// What the 64-bit x86-64 ELF file at `path` needs of others. Nothing in the file is believed
/// without a check. Throws Error(usage) when it can't be read, is no such file, or corrupt.
DynamicImports read_dynamic_imports(const std::filesystem::path& path);

}  // namespace optrace

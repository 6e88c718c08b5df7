#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace optrace {

/// A symbol that an ELF file imports through the dynamic linker.
struct DynamicImport {
  std::string name;
  std::string version;  ///< "libcudart.so.12" for cudaMalloc@libcudart.so.12; empty if none.
  std::string library;  ///< The file that should define the version (vn_file); empty if none.
  bool weak = false;    ///< May stay undefined.
};

struct DynamicImports {
  std::vector<std::string> needed;  ///< DT_NEEDED, in the file's order.
  std::vector<DynamicImport> symbols;
};

/// Reads the imports of the 64-bit x86-64 ELF file at `path`. All contents of the file are
/// validated. Throws Error(usage) if it can't be read, is not such a file, or is corrupt.
DynamicImports read_dynamic_imports(const std::filesystem::path& path);

/// A symbol that an ELF file defines for others.
struct DynamicExport {
  std::string name;
  std::string version;  ///< "libcudart.so.12" for cudaMalloc@@libcudart.so.12; empty if none.
};

/// Reads what the file at `path` exports according to its hash table (DT_GNU_HASH). A file without
/// that table exports nothing. Throws like read_dynamic_imports().
std::vector<DynamicExport> read_dynamic_exports(const std::filesystem::path& path);

struct DynamicExports {
  std::string soname;           ///< DT_SONAME; empty if there is none.
  std::set<std::string> found;  ///< Those of the names that the file defines for others.
};

/// Looks up the names, of whatever version, in the hash table (DT_GNU_HASH) of the file at `path`,
/// without reading its other symbols. A file without that table exports nothing. Throws like
/// read_dynamic_imports().
DynamicExports find_exports(const std::filesystem::path& path, const std::set<std::string>& names);

}  // namespace optrace

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace optrace {

/// What an index is written from. The order of nothing in here matters to the file.
struct IndexContents {
  struct Call {
    std::string callee;  ///< Canonical symbol.
    std::uint32_t line = 0;
    auto operator<=>(const Call&) const = default;
  };
  struct Function {
    std::string symbol;  ///< Canonical.
    std::string file;    ///< Relative to the source tree.
    std::uint32_t line = 0;
    std::vector<Call> calls;
  };
  struct Op {
    std::string name;              ///< `aten::add.Tensor`
    std::string unambiguous_name;  ///< `add_Tensor`
    std::uint32_t line = 0;        ///< In native_functions.yaml.
  };

  std::map<std::string, std::string> meta;  ///< `torch_version`, `git_version`, ...
  std::vector<Function> functions;
  std::vector<Op> ops;
};

/// Writes an index file (index_format.h), whole or not at all. A function that occurs several times
/// with one symbol and file (a header's, seen from two units) is stored once, with the calls of
/// all. The same contents give the same bytes. Throws Error(usage) when `path` can't be written,
/// Error(failed) when the contents do not fit the format.
void write_index(IndexContents contents, const std::filesystem::path& path);

}  // namespace optrace

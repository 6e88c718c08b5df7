#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace optrace {

/// A place in the source that an index was made from. The text lives as long as the Index.
struct SourceLocation {
  std::string_view
      file;  ///< Relative to the source tree; generated code as it lies in a build tree.
  std::uint32_t line = 0;  ///< From 1.
};

/// A function's definition.
struct Definition {
  std::string_view symbol;  ///< Canonical (symbol_key.h).
  SourceLocation location;
};

/// "This function calls that one here." Also an op re-entered, a library call, a launch.
struct CallSite {
  std::string_view callee;  ///< Canonical symbol; a template's instance: its template_key.
  SourceLocation location;
};

/// An entry of native_functions.yaml.
struct OpEntry {
  std::string_view name;              ///< `aten::add.Tensor`
  std::string_view unambiguous_name;  ///< `add_Tensor`, as in `at::_ops::add_Tensor`.
  SourceLocation location;
};

/// One PyTorch version's definitions, call sites and ops: a read-only file, mapped. Every byte of
/// it is checked before it is believed; the first use of a broken part throws Error(usage) that
/// names the file and what is wrong with it.
class Index {
 public:
  /// Throws Error(usage): no index, an unknown version of the format, truncated, or corrupt.
  static Index open(const std::filesystem::path& path);
  ~Index();
  Index(Index&&) noexcept;
  Index& operator=(Index&&) noexcept;

  std::string_view torch_version() const;  ///< `2.6.0`, without a local part such as `+cu124`.
  std::string_view git_version() const;  ///< The upstream commit, 40 hex digits; empty if unknown.
  const std::filesystem::path& path() const;

  /// What the writer noted under `key`, such as `units`; empty if it noted nothing.
  std::string_view note(std::string_view key) const;

  std::size_t definition_count() const;
  std::size_t call_site_count() const;

  /// A template's instance and a lambda are found by the key that symbol_key.h's function_key
  /// gives; Definition::symbol is that key then.
  ///
  /// Functions of internal linkage in two files can share a symbol. `source_file` tells them apart:
  /// the STT_FILE symbol above the function's (`UfuncCPUKernel_add.cpp.AVX2.cpp`), or a file's name
  /// with or without its folders. Without one, or with one that fits none, it is the first by file.
  std::optional<Definition> find_definition(std::string_view canonical_symbol,
                                            std::string_view source_file = {}) const;

  /// All functions of that symbol, by file.
  std::vector<Definition> find_definitions(std::string_view canonical_symbol) const;

  /// The call sites in the body of a function (lambdas in it included), by line. Empty if unknown.
  std::vector<CallSite> calls_of(std::string_view canonical_symbol,
                                 std::string_view source_file = {}) const;

  std::optional<OpEntry> find_op(std::string_view unambiguous_name) const;
  std::vector<OpEntry> ops() const;

 private:
  struct State;
  explicit Index(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace optrace

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/store/index_contents.h"
#include "indexer/store/op_facts.h"
#include "indexer/store/result_type.h"

namespace optrace {

/// A location in the source that an index was made from. The string is valid as long as the Index.
struct SourceLocation {
  /// Path relative to the source tree; for generated code, relative to a build tree.
  std::string_view file;
  std::uint32_t line = 0;  ///< From 1.
  /// Nothing if the line is exact for the index's version of PyTorch.
  std::optional<LineInterval> approximate{};
};

/// A function's definition.
struct Definition {
  std::string_view symbol;  ///< Canonical (symbol_key.h).
  SourceLocation location;
  DefinitionKind kind = DefinitionKind::function;
};

/// Returns true if a file's functions may be compiled into their callers.
bool is_header(std::string_view file);

/// A place where a function calls another. Re-entered ops, library calls and kernel launches are
/// call sites too.
struct CallSite {
  std::string_view callee;  ///< Canonical symbol; for a template's instance, its template_key.
  SourceLocation location;
  CallKind kind = CallKind::call;
};

/// A registration under a name, for a dispatch key.
struct Registration {
  RegistrationKind kind = RegistrationKind::kernel;
  std::string_view name;
  std::string_view key;
  std::string_view function;  ///< Canonical symbol; empty if no function is named.
  SourceLocation location;
};

/// Kind of a Python name.
enum class PythonKind : char {
  module_ = 'm',
  class_ = 'c',    ///< Target: its bases' full names, comma-separated.
  function = 'f',  ///< Functions and methods written in Python.
  builtin = 'b',   ///< Bound in C++. Target: symbol of the binding (`THPVariable_...`), or empty.
  alias = 'a',     ///< Target: the name under which it is defined.
};

struct PythonName {
  std::string_view name;
  PythonKind kind = PythonKind::function;
  std::string_view target;
  SourceLocation location;  ///< For a builtin, the location of its binding, if known.
};

/// A function that calls another one.
struct Caller {
  Definition function;
  std::uint32_t line = 0;                     ///< Line of the call, in the function's file.
  std::optional<LineInterval> approximate{};  ///< Of the line.
  CallKind kind = CallKind::call;
};

/// An entry of native_functions.yaml.
struct OpEntry {
  std::string_view name;              ///< `aten::add.Tensor`
  std::string_view unambiguous_name;  ///< `add_Tensor`, as in `at::_ops::add_Tensor`.
  SourceLocation location;
};

/// The definitions, call sites and ops of one PyTorch version: a read-only file, mapped into
/// memory. All data is verified before use. The first access to a corrupt part throws Error(usage)
/// that names the file and the problem.
class Index {
 public:
  /// Throws Error(usage) if the file is not an index, has an unknown format version, is truncated,
  /// or is corrupt.
  static Index open(const std::filesystem::path& path);
  ~Index();
  Index(Index&&) noexcept;
  Index& operator=(Index&&) noexcept;

  std::string_view torch_version() const;  ///< `2.6.0`, without a local part such as `+cu124`.
  std::string_view git_version() const;  ///< The upstream commit, 40 hex digits; empty if unknown.
  const std::filesystem::path& path() const;

  /// Returns everything that the writer stored about the whole index, such as `units`.
  std::map<std::string, std::string> notes() const;

  /// Returns the value that the writer stored under `key`, such as `units`; empty if there is none.
  std::string_view note(std::string_view key) const;

  std::size_t definition_count() const;
  std::size_t call_site_count() const;
  bool has_approximate_lines() const;  ///< Of definitions, calls or registrations.

  /// Finds a function. A template's instance and a lambda are found by their key (function_key in
  /// symbol_key.h), and Definition::symbol is that key.
  ///
  /// Functions with internal linkage in two files can have the same symbol. `source_file`
  /// distinguishes them: the STT_FILE symbol before the function's
  /// (`UfuncCPUKernel_add.cpp.AVX2.cpp`), or a file's name with or without its folders. If it
  /// matches none, a definition in a header is chosen. Among the remaining ones, the first by file
  /// that can be in `library`, such as `libtorch_cuda.so`, is chosen: a CUDA library contains the
  /// files in CUDA's folders, any other library the rest.
  std::optional<Definition> find_definition(std::string_view canonical_symbol,
                                            std::string_view source_file = {},
                                            std::string_view library = {}) const;

  /// Returns all functions with that symbol, sorted by file.
  std::vector<Definition> find_definitions(std::string_view canonical_symbol) const;

  /// Returns the type of a function's result, if it is one of result_type.h and the index knows it.
  /// The function is chosen as by find_definition().
  std::optional<ResultType> result_type_of(std::string_view canonical_symbol,
                                           std::string_view source_file = {},
                                           std::string_view library = {}) const;
  bool has_result_types() const;

  /// Returns the call sites in a function's body, including lambdas, sorted by line. Empty if
  /// unknown.
  std::vector<CallSite> calls_of(std::string_view canonical_symbol,
                                 std::string_view source_file = {},
                                 std::string_view library = {}) const;

  /// Returns at most `limit` functions whose key contains `part` (such as `4gelu`, a name preceded
  /// by its length), sorted by symbol. For look-ups by an unqualified name.
  std::vector<Definition> find_definitions_with(std::string_view part, std::size_t limit) const;

  /// Calls `visit` with every symbol that contains `part`, in order, until `visit` returns false.
  /// Includes symbols that are only called (a library's functions).
  void each_symbol_with(std::string_view part,
                        const std::function<bool(std::string_view)>& visit) const;

  /// Calls `visit` with every definition, sorted by symbol.
  void each_definition(const std::function<void(const Definition&)>& visit) const;

  /// Calls `visit` with every definition and the call sites in its body, sorted by symbol.
  void each_function(
      const std::function<void(const Definition&, const std::vector<CallSite>&)>& visit) const;

  /// Returns the functions that call a function or take its address, with the lines.
  std::vector<Caller> callers_of(std::string_view canonical_symbol) const;

  std::optional<OpEntry> find_op(std::string_view unambiguous_name) const;
  std::vector<OpEntry> ops() const;

  /// Returns the facts of an op in the catalogue. Throws Error(usage) for a corrupt index.
  OpFacts facts_of(const OpEntry& op) const;

  /// Returns the registrations under a name: an op's (`aten::add.Tensor`), a stub's symbol, or the
  /// namespace of fallbacks (`_`). Sorted by kind, key, file and line.
  std::vector<Registration> registrations_of(std::string_view name) const;
  std::vector<Registration> registrations() const;

  /// Returns the anchors of the wheel that belongs to the index, sorted by file and line; none if
  /// they were not recorded.
  std::vector<IndexedAnchor> anchors() const;
  bool has_anchors() const;

  std::optional<PythonName> find_python_name(std::string_view name) const;
  std::vector<PythonName> python_names() const;

  /// Returns everything that the index contains, to write another index from it.
  IndexContents contents() const;

 private:
  struct State;
  explicit Index(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace optrace

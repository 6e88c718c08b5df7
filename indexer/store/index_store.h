#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "indexer/store/index_contents.h"
#include "indexer/store/op_facts.h"

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
  DefinitionKind kind = DefinitionKind::function;
};

/// "This function calls that one here." Also an op re-entered, a library call, a launch.
struct CallSite {
  std::string_view callee;  ///< Canonical symbol; a template's instance: its template_key.
  SourceLocation location;
  CallKind kind = CallKind::call;
};

/// What is registered under a name, for a dispatch key.
struct Registration {
  RegistrationKind kind = RegistrationKind::kernel;
  std::string_view name;
  std::string_view key;
  std::string_view function;  ///< Canonical symbol; empty where none is named.
  SourceLocation location;
};

/// What a Python name stands for.
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
  SourceLocation location;  ///< For a builtin that of its binding, where that is known.
};

/// "This function is called from there."
struct Caller {
  Definition function;
  std::uint32_t line = 0;  ///< Of the call, in the function's file.
  CallKind kind = CallKind::call;
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
  /// with or without its folders. Where it fits none, the definition is in a header. Of those that
  /// are left it is the first by file among those that can be in `library`, such as
  /// `libtorch_cuda.so`: one for CUDA has what is in CUDA's folders, another one has the rest.
  std::optional<Definition> find_definition(std::string_view canonical_symbol,
                                            std::string_view source_file = {},
                                            std::string_view library = {}) const;

  /// All functions of that symbol, by file.
  std::vector<Definition> find_definitions(std::string_view canonical_symbol) const;

  /// The call sites in the body of a function (lambdas in it included), by line. Empty if unknown.
  std::vector<CallSite> calls_of(std::string_view canonical_symbol,
                                 std::string_view source_file = {},
                                 std::string_view library = {}) const;

  /// Functions whose key holds `part` (such as `4gelu`, a name with its length before it), in the
  /// order of their symbols, `limit` at most. For look-ups by a bare name.
  std::vector<Definition> find_definitions_with(std::string_view part, std::size_t limit) const;

  /// Every symbol that holds `part`, of what is defined and of what is only called (a library's
  /// functions), in their order, until `visit` says false.
  void each_symbol_with(std::string_view part,
                        const std::function<bool(std::string_view)>& visit) const;

  /// Every definition, in the order of their symbols.
  void each_definition(const std::function<void(const Definition&)>& visit) const;

  /// Who calls a function, or takes its address, and where.
  std::vector<Caller> callers_of(std::string_view canonical_symbol) const;

  std::optional<OpEntry> find_op(std::string_view unambiguous_name) const;
  std::vector<OpEntry> ops() const;

  /// What the catalogue says of an op. Throws Error(usage) for a broken index.
  OpFacts facts_of(const OpEntry& op) const;

  /// What is registered under a name: an op's (`aten::add.Tensor`), a stub's symbol, a namespace's
  /// fallbacks (`_`). By kind, key, file and line.
  std::vector<Registration> registrations_of(std::string_view name) const;
  std::vector<Registration> registrations() const;

  std::optional<PythonName> find_python_name(std::string_view name) const;
  std::vector<PythonName> python_names() const;

 private:
  struct State;
  explicit Index(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace optrace

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace optrace {

/// A schema's annotation of the memory behind an argument or result: `(a!)`, `(a -> *)`, `(a|b)`.
struct AliasSet {
  std::vector<std::string> before;  ///< Set names such as `a`; `*` stands for any memory.
  std::vector<std::string> after;   ///< Set names after the call; same as `before` by default.
  bool writes = false;              ///< `!`: the op writes to the memory.
};

struct SchemaArgument {
  std::string type;  ///< Without alias sets: `Tensor?`, `int[2]`, `Tensor[]`.
  std::string name;  ///< May be empty for a result.
  std::optional<std::string> default_value;  ///< As written in the schema.
  std::optional<AliasSet> alias;
  bool keyword_only = false;

  bool writes() const { return alias && alias->writes; }
  /// Returns true for a keyword-only argument that the op writes its result to.
  bool out() const { return keyword_only && writes(); }
};

/// A parsed op schema. The syntax is that of torch/csrc/jit/frontend/function_schema_parser.cpp;
/// aten/src/ATen/native/README.md explains it.
struct OpSchema {
  std::string space;     ///< `aten`; empty if not given.
  std::string name;      ///< `add_`
  std::string overload;  ///< `Tensor`; empty for the overload without a name.
  std::vector<SchemaArgument> arguments;
  std::vector<SchemaArgument> returns;
  bool any_arguments = false;  ///< `...`
  bool any_returns = false;
};

/// Parses `aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`. Throws
/// Error(usage) with the position of the error if the text is not a schema.
OpSchema parse_schema(std::string_view text);

/// Returns true if an op's name is that of an in-place op: `add_`, but not `__and__`.
bool is_in_place_name(std::string_view name);

/// Describes an op's use of memory in sentences: the arguments that it changes, and whether its
/// results are views of arguments, the arguments themselves, or new. `composite` is true for ops
/// that consist of others on every device; their views may sometimes be copies.
std::vector<std::string> describe_memory(const OpSchema& schema, bool composite);

}  // namespace optrace

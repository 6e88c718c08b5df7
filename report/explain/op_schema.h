#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace optrace {

/// What a schema says of the memory behind an argument or result: `(a!)`, `(a -> *)`, `(a|b)`.
struct AliasSet {
  std::vector<std::string> before;  ///< `a`; `*` stands for any memory.
  std::vector<std::string> after;   ///< What it is part of afterwards; as `before` if not said.
  bool writes = false;              ///< `!`: the op writes to it.
};

struct SchemaArgument {
  std::string type;  ///< Without alias sets: `Tensor?`, `int[2]`, `Tensor[]`.
  std::string name;  ///< May be empty for a result.
  std::optional<std::string> default_value;  ///< As written.
  std::optional<AliasSet> alias;
  bool keyword_only = false;

  bool writes() const { return alias && alias->writes; }
  /// A keyword-only argument that the op writes its result to.
  bool out() const { return keyword_only && writes(); }
};

/// An op's schema, taken apart. The syntax is that of torch/csrc/jit/frontend/
/// function_schema_parser.cpp, which aten/src/ATen/native/README.md explains.
struct OpSchema {
  std::string space;     ///< `aten`; empty if not given.
  std::string name;      ///< `add_`
  std::string overload;  ///< `Tensor`; empty for the overload without a name.
  std::vector<SchemaArgument> arguments;
  std::vector<SchemaArgument> returns;
  bool any_arguments = false;  ///< `...`
  bool any_returns = false;
};

/// Reads `aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`. Throws
/// Error(usage) that says where the text is no schema.
OpSchema parse_schema(std::string_view text);

/// Whether an op's name is one of those that change their first argument: `add_`, but no `__and__`.
bool is_in_place_name(std::string_view name);

/// What a schema says of memory, in sentences: which arguments the op changes, and whether results
/// are views of arguments, the arguments themselves, or new. `composite` is true for ops that
/// consist of others on every device: what is a view for those may be a copy at times.
std::vector<std::string> describe_memory(const OpSchema& schema, bool composite);

}  // namespace optrace

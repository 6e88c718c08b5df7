#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace optrace {

/// The spelling of a requested name.
enum class NameForm : std::uint8_t {
  plain,    ///< One word: `conv2d`, `Linear`, `add_stub`, `cudnnBackendExecute`.
  dotted,   ///< Python syntax, or an op: `nn.Linear.forward`, `torch.ops.aten.add.Tensor`.
  cpp,      ///< C++ syntax, or an op: `at::native::conv2d`, `aten::add.Tensor`.
  mangled,  ///< `_ZN2at6native6conv2dE...`, as in a symbol table.
};

/// A parsed name.
struct NameQuery {
  std::string text;  ///< Without surrounding space.
  NameForm form = NameForm::plain;
  /// The components of a C++ or Python name, without template arguments, parameters and anonymous
  /// namespaces. A lambda has the name of the function that it is in. Empty for a mangled name.
  std::vector<std::string> components;
  std::string parameters;  ///< Only for a C++ function, without spaces: `(at::Tensorconst&,long)`.
  /// The ops that it can mean: `aten::add.Tensor`, or `aten::add` for all of its overloads.
  /// `aten::add.default` means the overload without a name.
  std::vector<std::string> ops;
};

/// Throws Error(usage) if the text can't be a name: if it is empty, larger than 64 KiB or not valid
/// UTF-8, or contains control characters.
NameQuery parse_name(std::string_view text);

/// Returns the possible Python names for `query`, in the order in which to try them. Users leave
/// out `torch.`, and write `nn.`, `F.` and `optim.`.
std::vector<std::string> python_spellings(const NameQuery& query);

/// Returns the components of a symbol's name, which may be a function, type or variable: `at`,
/// `native`, `add` for `_ZN2at6native12_GLOBAL__N_13addE...`. A name that is not mangled is its
/// only component.
std::vector<std::string> symbol_components(std::string_view symbol);

/// Returns false if `part`, a word with its length before it (`4gelu`), can only be in the
/// parameters of the symbol, not in its name. Much cheaper than symbol_components.
bool may_name(std::string_view symbol, std::string_view part);

/// Describes how well a symbol's components match the requested ones.
enum class NameFit : std::uint8_t {
  exact,         ///< All components match.
  exact_symint,  ///< All match but `_symint`, torchgen's suffix of kernels with symbolic sizes.
  suffix,        ///< The leading namespaces or classes were left out.
  suffix_symint,
  scattered,  ///< Others are in between: `at::conv2d` for `at::native::conv2d`.
  member,     ///< The name is a class, and the symbol one of its members.
  none,
};
NameFit fit(const std::vector<std::string>& symbol, const std::vector<std::string>& query);

}  // namespace optrace

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace optrace {

/// How a name that somebody asks for is spelled.
enum class NameForm : std::uint8_t {
  plain,    ///< One word: `conv2d`, `Linear`, `add_stub`, `cudnnBackendExecute`.
  dotted,   ///< Python's way, or an op's: `nn.Linear.forward`, `torch.ops.aten.add.Tensor`.
  cpp,      ///< C++'s way, or an op's: `at::native::conv2d`, `aten::add.Tensor`.
  mangled,  ///< `_ZN2at6native6conv2dE...`, as a symbol table has it.
};

/// A name, taken apart.
struct NameQuery {
  std::string text;  ///< Without space around it.
  NameForm form = NameForm::plain;
  /// Of a C++ or Python name, without template arguments, parameters and anonymous namespaces. A
  /// lambda's name is that of the function that it lies in. Empty for a mangled name.
  std::vector<std::string> components;
  std::string parameters;  ///< Of a C++ function, without spaces: `(at::Tensorconst&,long)`.
  /// What ops it can mean: `aten::add.Tensor`, or `aten::add` for all overloads of it. An overload
  /// without a name can be asked for as `aten::add.default`.
  std::vector<std::string> ops;
};

/// Throws Error(usage) for what can be no name: nothing, control characters, bytes that are no
/// UTF-8, or more than 64 KiB.
NameQuery parse_name(std::string_view text);

/// The names that Python could know `query` by, in the order in which they are to be tried: people
/// leave out `torch.`, and write `nn.`, `F.` and `optim.`.
std::vector<std::string> python_spellings(const NameQuery& query);

/// The components of a function's, type's or variable's name by its symbol: `at`, `native`, `add`
/// of `_ZN2at6native12_GLOBAL__N_13addE...`. A name that is no mangled one is its only component.
std::vector<std::string> symbol_components(std::string_view symbol);

/// False if `part`, a word with its length before it (`4gelu`), is surely no component of a
/// symbol's name but of its parameters only. Much cheaper than symbol_components.
bool may_name(std::string_view symbol, std::string_view part);

/// How well a symbol's components fit those that were asked for.
enum class NameFit : std::uint8_t {
  exact,         ///< All of them, none more.
  exact_symint,  ///< But for `_symint`, which torchgen appends to a kernel with symbolic sizes.
  suffix,        ///< Namespaces or classes in front were left out.
  suffix_symint,
  scattered,  ///< Others in between: `at::conv2d` for `at::native::conv2d`.
  member,     ///< The name is a class, the symbol one of its members.
  none,
};
NameFit fit(const std::vector<std::string>& symbol, const std::vector<std::string>& query);

}  // namespace optrace

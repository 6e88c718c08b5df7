#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace optrace {

/// The virtual functions of classes in libraries, and which of them override which. They are read
/// from the libraries' virtual tables at the first question. Symbols are canonical (symbol_key.h).
class VirtualFunctions {
 public:
  /// Libraries that can't be read or are stripped have no classes.
  explicit VirtualFunctions(std::vector<std::filesystem::path> libraries);
  ~VirtualFunctions();
  VirtualFunctions(const VirtualFunctions&) = delete;
  VirtualFunctions& operator=(const VirtualFunctions&) = delete;

  /// Returns the functions of derived classes that override a function, directly or not, sorted.
  /// Empty if it is not virtual. The function may be pure.
  std::vector<std::string> overriders(std::string_view symbol);

  /// Returns the part that a function's symbol shares with those of the functions that it
  /// overrides: its name with the length, `8allocate`, or the code of an operator. Empty if it is
  /// not a virtual function of a derived class.
  std::string shared_part(std::string_view symbol);

  /// Returns true if `symbol` overrides `base`, directly or not.
  bool overrides(std::string_view symbol, std::string_view base);

 private:
  struct State;
  State& state();

  std::vector<std::filesystem::path> libraries_;
  std::unique_ptr<State> state_;
};

}  // namespace optrace

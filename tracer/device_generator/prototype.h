#pragma once

#include <string>
#include <utility>
#include <vector>

namespace optrace {

enum class ValueKind { boolean, integer, real, enumeration, pointer, other };

/// A parameter of a C function, as its header declares it.
struct Parameter {
  std::string name;  ///< Empty where the header gives none.
  std::string type;  ///< As C++ spells it; arrays are pointers.
  ValueKind kind = ValueKind::other;
  // Of what it points to, if it is a pointer:
  std::string pointee{};
  ValueKind pointee_kind = ValueKind::other;
  bool pointee_constant = false;
  bool pointee_complete = false;  ///< Has a size.
  /// Of an enumeration: (value, name), in the header's order.
  std::vector<std::pair<long long, std::string>> enumerators{};
};

struct Prototype {
  std::string name;
  std::string result;  ///< The type; "void" for none.
  std::vector<Parameter> parameters;
};

}  // namespace optrace

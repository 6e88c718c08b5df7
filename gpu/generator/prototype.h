#pragma once

#include <string>
#include <utility>
#include <vector>

namespace optrace {

enum class ValueKind { boolean, integer, real, enumeration, pointer, other };

/// A parameter of a C function, as its header declares it.
struct Parameter {
  std::string name;  ///< Empty if the header does not name it.
  std::string type;  ///< In C++ syntax; arrays are pointers.
  ValueKind kind = ValueKind::other;
  // Properties of a pointer's target:
  std::string pointee{};
  ValueKind pointee_kind = ValueKind::other;
  bool pointee_constant = false;
  bool pointee_complete = false;  ///< True if the type has a size.
  /// For an enumeration: (value, name) in the header's order.
  std::vector<std::pair<long long, std::string>> enumerators{};
};

struct Prototype {
  std::string name;
  std::string result;  ///< Result type; "void" for none.
  std::vector<Parameter> parameters;
};

}  // namespace optrace

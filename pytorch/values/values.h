#pragma once

// The values that an op takes and returns, as a report shows them. C++17, because the reader
// library that other programs link includes it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace optrace {

/// Compares two structs of one type that name their members in fields().
template <typename Struct, typename = decltype(std::declval<const Struct&>().fields())>
bool operator==(const Struct& left, const Struct& right) {
  return left.fields() == right.fields();
}
template <typename Struct, typename = decltype(std::declval<const Struct&>().fields())>
bool operator!=(const Struct& left, const Struct& right) {
  return !(left == right);
}

/// A number, text or truth value. std::monostate is Python's None. A whole number is a
/// std::uint64_t only if it is too large for a std::int64_t.
using Constant =
    std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string>;

using Sizes = std::vector<std::int64_t>;

/// What a report has of a tensor.
struct TensorFacts {
  /// Nothing if it is symbolic, provided by Python, or differed in very many calls.
  std::optional<Sizes> shape;
  std::optional<Sizes> strides;  ///< In elements. Nothing for a layout without strides, too.
  std::string dtype;             ///< `float32`; empty if unknown.
  std::string device;            ///< `cuda:0`; empty if unknown.
  bool requires_grad = false;
  std::vector<std::string> keys;  ///< Its dispatch keys, the dispatcher's first choice first.
  bool wrapped_number = false;    ///< A Python number that became a tensor.

  auto fields() const {
    return std::tie(shape, strides, dtype, device, requires_grad, keys, wrapped_number);
  }
};

/// A value of a type that has no value here: a dtype, a generator. The type `more` is the last
/// element of a list that goes on.
struct OtherValue {
  std::string type;
  std::string text;  ///< `float32` of a dtype; may be empty.

  auto fields() const { return std::tie(type, text); }
};

using Scalar = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string,
                            TensorFacts, OtherValue>;
/// Lists are never nested.
using Value = std::variant<Scalar, std::vector<Scalar>>;

/// Returns the tensor that a value is; null for another one.
inline const TensorFacts* tensor_in(const Value& value) {
  const auto* const scalar = std::get_if<Scalar>(&value);
  return scalar == nullptr ? nullptr : std::get_if<TensorFacts>(scalar);
}

/// An argument of an op.
struct Argument {
  std::string name;  ///< Empty if unknown.
  Value value;

  auto fields() const { return std::tie(name, value); }
};

/// How the storage of a result relates to those of the arguments.
enum class ResultRelation : std::uint8_t {
  unknown,  ///< As of a tensor without storage.
  fresh,    ///< It has storage of its own.
  view,     ///< It shares the storage of an argument.
  alias,    ///< It is an argument.
};

/// Returns the name of the relation in JSON; empty if it is unknown.
constexpr std::string_view name_of(ResultRelation relation) {
  return relation == ResultRelation::fresh   ? "fresh"
         : relation == ResultRelation::view  ? "view"
         : relation == ResultRelation::alias ? "alias"
                                             : "";
}

/// A result of an op.
struct Result {
  Scalar value;
  ResultRelation relation = ResultRelation::unknown;
  std::string of;  ///< The argument that it is a view or an alias of; may be empty.

  auto fields() const { return std::tie(value, relation, of); }
};
/// A result, or a list of results that the op returns as one.
using ResultOrList = std::variant<Result, std::vector<Result>>;

}  // namespace optrace

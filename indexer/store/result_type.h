#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace optrace {

/// How a value that a function returns in rax is to be read.
enum class ResultForm : char {
  boolean = 'b',
  signed_integer = 's',
  unsigned_integer = 'u',
  signed_enumeration = 'e',
  unsigned_enumeration = 'n',
  pointer = 'p',
  /// std::optional of a boolean, an integer or an enumeration: the value, then a byte that is 1 if
  /// there is one.
  optional = 'o',
};

/// The name of the type of every pointer: an index does not have what it points to.
inline constexpr std::string_view kPointerType = "pointer";

/// A named value of an enumeration.
struct Enumerator {
  std::string name;
  std::int64_t value = 0;
  bool operator==(const Enumerator&) const = default;
};

/// The type of a small result, or an enumeration.
struct ResultType {
  ResultForm form = ResultForm::boolean;
  /// In bytes, at most 8; for an optional, that of the value in it, at most 4.
  std::uint32_t size = 1;
  std::string name;  ///< `bool`, `int64_t`, `at::native::ConvBackend`.
  std::vector<Enumerator> enumerators;
  /// Of an optional: the form of the value in it. Otherwise the same as `form`.
  ResultForm value_form = ResultForm::boolean;

  bool operator==(const ResultType&) const = default;
};

/// Returns the type in the form in which an index stores it, a line without tabs:
/// `n1 at::native::ConvBackend|CudaDepthwise2d=0|...`.
std::string text_of(const ResultType& type);

/// Reads the result of text_of(). Returns nothing if it is not one.
std::optional<ResultType> parse_result_type(std::string_view text);

/// What a register holds, read as a value of a type.
struct ReturnedValue {
  std::int64_t number = 0;  ///< Of a pointer: 0 if it is null, otherwise 1.
  bool is_empty = false;    ///< An optional without a value.
  std::string name;         ///< `true`, `Mkldnn`, `null`; empty for a number without a name.
};

/// Reads what a function left in rax. Returns nothing if that is not a value of the type: a byte
/// other than 0 and 1 for a bool.
std::optional<ReturnedValue> read_result(const ResultType& type, std::uint64_t rax);

}  // namespace optrace

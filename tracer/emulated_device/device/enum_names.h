#pragma once

// The enumerators' own names of CUDA's enumerations, taken by the compiler from the headers at
// hand: the lists differ between versions, and a table written by hand would miss the newer ones.

#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace optrace::emulated {
namespace detail {

/// As g++ writes it: "... [with Enum = E; Enum value = NAME; ...]", or "(E)7" where 7 has no name.
/// Only the text is taken when this is compiled: there are thousands.
template <typename Enum, Enum value>
constexpr std::string_view signature() {
  return {__PRETTY_FUNCTION__, sizeof __PRETTY_FUNCTION__ - 1};
}

template <typename Enum, std::int64_t first, std::size_t... offsets>
constexpr std::array<std::string_view, sizeof...(offsets)> signatures(
    std::index_sequence<offsets...> /*unused*/) {
  return {signature<Enum, static_cast<Enum>(first + static_cast<std::int64_t>(offsets))>()...};
}

}  // namespace detail

/// The name of `value`; empty for what has none, or lies outside `first` and the `count` after it
/// (which must lie in the range that the enumeration's own enumerators span).
template <typename Enum, std::int64_t first, std::size_t count>
std::string_view enumerator_name(Enum value) {
  static constexpr auto kSignatures =
      detail::signatures<Enum, first>(std::make_index_sequence<count>{});
  // All signatures are alike up to the value's name.
  constexpr std::string_view kBefore = "value = ";
  static const std::size_t start = kSignatures[0].rfind(kBefore) + kBefore.size();
  const std::int64_t at = static_cast<std::int64_t>(value) - first;
  if (at < 0 || at >= static_cast<std::int64_t>(count)) return {};
  const std::string_view signature = kSignatures[static_cast<std::size_t>(at)];
  const std::string_view name =
      signature.substr(start, signature.find_first_of("];", start) - start);
  return name.find(')') == std::string_view::npos ? name : std::string_view{};
}

/// "CUDNN_DATA_HALF" without "CUDNN_DATA_", in small letters; the number where there is no name.
inline std::string short_name(std::string_view name, std::string_view prefix, std::int64_t value) {
  if (name.empty()) return std::to_string(value);
  if (name.substr(0, prefix.size()) == prefix) name.remove_prefix(prefix.size());
  std::string text(name);
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace optrace::emulated

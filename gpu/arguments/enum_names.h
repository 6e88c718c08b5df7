#pragma once

// Names of CUDA's enumerators, which the compiler takes from the installed headers. The lists
// differ between versions, so a handwritten table would lack newer ones.

#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace optrace::emulated {
namespace detail {

/// g++ formats the text as "... [with Enum = E; Enum value = NAME; ...]", or "(E)7" if 7 has no
/// name. Only the text is stored at compile time, because there are thousands.
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

/// Returns the name of `value`, or an empty text if it has none or is outside the `count` values
/// from `first` on, which must be in the range of the enumeration's own enumerators.
template <typename Enum, std::int64_t first, std::size_t count>
std::string_view enumerator_name(Enum value) {
  static constexpr auto kSignatures =
      detail::signatures<Enum, first>(std::make_index_sequence<count>{});
  // All signatures are equal up to the value's name.
  constexpr std::string_view kBefore = "value = ";
  static const std::size_t start = kSignatures[0].rfind(kBefore) + kBefore.size();
  const std::int64_t at = static_cast<std::int64_t>(value) - first;
  if (at < 0 || at >= static_cast<std::int64_t>(count)) return {};
  const std::string_view signature = kSignatures[static_cast<std::size_t>(at)];
  const std::string_view name =
      signature.substr(start, signature.find_first_of("];", start) - start);
  return name.find(')') == std::string_view::npos ? name : std::string_view{};
}

/// Returns the name of `value` as a text that is never freed, or `unknown` if it has none.
template <typename Enum, std::int64_t first, std::size_t count>
const char* enumerator_text(Enum value, const char* unknown = "") {
  static const auto* const texts = [] {
    auto* const made = new std::array<std::string, count>;
    for (std::size_t i = 0; i < count; ++i)
      (*made)[i] = enumerator_name<Enum, first, count>(
          static_cast<Enum>(first + static_cast<std::int64_t>(i)));
    return made;
  }();
  const std::int64_t at = static_cast<std::int64_t>(value) - first;
  if (at < 0 || at >= static_cast<std::int64_t>(count)) return unknown;
  const std::string& text = (*texts)[static_cast<std::size_t>(at)];
  return text.empty() ? unknown : text.c_str();
}

/// Returns "half" for "CUDNN_DATA_HALF" with the prefix "CUDNN_DATA_", or the number if there is no
/// name.
inline std::string short_name(std::string_view name, std::string_view prefix, std::int64_t value) {
  if (name.empty()) return std::to_string(value);
  if (name.substr(0, prefix.size()) == prefix) name.remove_prefix(prefix.size());
  std::string text(name);
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace optrace::emulated

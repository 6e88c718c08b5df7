#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "report/model/shared.h"

namespace optrace {

/// Hashes structs that name their members in fields(), and what these are made of. Equal values
/// have equal hashes.
class FieldHash {
 public:
  template <typename Value>
  static std::size_t of(const Value& value) {
    FieldHash hash;
    hash.add(value);
    return hash.sum_;
  }

 private:
  template <typename Value>
  void add(const Value& value) {
    if constexpr (requires { value.fields(); })
      std::apply([this](const auto&... members) { (add(members), ...); }, value.fields());
    else
      mix(std::hash<Value>()(value));
  }
  template <typename Value>
  void add(const std::vector<Value>& list) {
    mix(list.size());
    for (const Value& one : list) add(one);
  }
  template <typename Value>
  void add(const std::optional<Value>& value) {
    mix(value.has_value());
    if (value) add(*value);
  }
  template <typename Value>
  void add(const Shared<Value>& value) {
    mix(value.has_value());
    if (value) add(*value);
  }
  template <typename... Values>
  void add(const std::variant<Values...>& value) {
    mix(value.index());
    std::visit([this](const auto& held) { add(held); }, value);
  }

  void mix(std::size_t hash) {
    constexpr std::size_t kSpread = 0x9E3779B97F4A7C15U;  // 2^64 divided by the golden ratio.
    sum_ ^= hash + kSpread + (sum_ << 6U) + (sum_ >> 2U);
  }

  std::size_t sum_ = 0;
};

}  // namespace optrace

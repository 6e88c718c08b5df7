#pragma once

// C++17, because the reader library that other programs link includes it.

#include <memory>
#include <optional>
#include <utility>

namespace optrace {

/// An optional value that its copies share, since many frames of a report have equal ones. It is
/// read like a std::optional, but `->` reads an absent value as a default one.
template <typename Value>
class Shared {
 public:
  Shared() = default;
  Shared(Value value) : value_(std::make_shared<Value>(std::move(value))) {}
  Shared(std::optional<Value> value)
      : value_(value ? std::make_shared<Value>(*std::move(value)) : nullptr) {}

  bool has_value() const { return value_ != nullptr; }
  explicit operator bool() const { return has_value(); }
  const Value& operator*() const { return get(); }
  const Value* operator->() const { return &get(); }
  Value value_or(Value otherwise) const { return value_ ? *value_ : std::move(otherwise); }

  /// Returns the value, or a default one if there is none.
  const Value& get() const {
    static const Value kDefault{};
    return value_ ? *value_ : kDefault;
  }

  /// Returns this object's own value for changes, which copies do not share. Makes one if there is
  /// none.
  Value& edit() {
    if (value_ == nullptr)
      value_ = std::make_shared<Value>();
    else if (value_.use_count() != 1)
      value_ = std::make_shared<Value>(*value_);
    return *value_;
  }

  friend bool operator==(const Shared& left, const Shared& right) {
    return left.value_ == right.value_ ||
           (left.value_ != nullptr && right.value_ != nullptr && *left.value_ == *right.value_);
  }
  friend bool operator!=(const Shared& left, const Shared& right) { return !(left == right); }

 private:
  std::shared_ptr<Value> value_;
};

}  // namespace optrace

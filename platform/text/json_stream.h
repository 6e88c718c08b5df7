#pragma once

#include <concepts>
#include <cstddef>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>

namespace optrace {

/// Writes a JSON text, value by value, in the order of the calls. Fields belong to the innermost
/// object that is open, elements to the innermost array.
class JsonStream {
 public:
  /// Each level of the text is indented by `indentation` more spaces; the text is on one line if it
  /// is negative.
  explicit JsonStream(int indentation = -1) : indentation_(indentation) {}

  /// `write` adds the fields.
  template <typename Write>
  void object(const Write& write) {
    open('{');
    write();
    close('}');
  }

  /// `write` adds the elements.
  template <typename Write>
  void array(const Write& write) {
    open('[');
    write();
    close(']');
  }

  /// Adds an array with an object for each item; `write(item)` adds the fields of one.
  template <std::ranges::input_range Items, typename Write>
  void objects(const Items& items, const Write& write) {
    array([&] {
      for (const auto& item : items) object([&] { write(item); });
    });
  }

  /// Begins a field; the next call adds its value.
  JsonStream& key(std::string_view name);

  void null() { add("null"); }

  /// Adds a text, a boolean, an integer, an optional value (null without one), or an array of
  /// these.
  template <typename Value>
  void value(const Value& value) {
    if constexpr (std::is_convertible_v<const Value&, std::string_view>) {
      add_text(value);
    } else if constexpr (std::same_as<Value, bool>) {
      add(value ? "true" : "false");
    } else if constexpr (std::integral<Value>) {
      add(std::to_string(value));
    } else if constexpr (std::ranges::input_range<Value>) {
      array([&] {
        for (const auto& item : value) this->value(item);
      });
    } else if (value) {
      this->value(*value);
    } else {
      null();
    }
  }

  /// Adds a field with such a value.
  template <typename Value>
  void field(std::string_view name, const Value& value) {
    key(name).value(value);
  }

  /// Adds a field with a text; with null if it is empty.
  void text_or_null(std::string_view name, std::string_view text);

  /// Returns the text, which can't control a terminal (printable_json()). Bytes that are not UTF-8
  /// are visible escapes in it (valid_utf8()).
  std::string text() const;

 private:
  void open(char bracket);
  void close(char bracket);
  void separate();
  void break_line();
  void add(std::string_view json);
  void add_text(std::string_view text);

  int indentation_;
  std::size_t depth_ = 0;
  bool is_first_ = true;       // Of the innermost object or array.
  bool is_after_key_ = false;  // The next value is that of a field.
  std::string text_;
};

}  // namespace optrace

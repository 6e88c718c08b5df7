#pragma once

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

namespace optrace_ops {

/// Writes JSON. Inserts the comma between values and keys.
class JsonText {
 public:
  void open(char bracket) {
    separate();
    text_ += bracket;
    first_ = true;
  }
  void close(char bracket) {
    text_ += bracket;
    first_ = false;
  }
  void key(const char* name) {
    string(name);
    text_ += ':';
    first_ = true;
  }
  void null() { raw("null"); }
  void boolean(bool value) { raw(value ? "true" : "false"); }
  void number(std::int64_t value) { raw(std::to_string(value).c_str()); }
  void number(std::uint64_t value) { raw(std::to_string(value).c_str()); }
  /// JSON has no numbers for infinity and NaN, which are written as strings.
  void number(double value) {
    if (!std::isfinite(value)) {
      string(std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
      return;
    }
    // The shortest representation that reads back as the same value has 24.
    constexpr std::size_t kMaxLength = 40;
    char buffer[kMaxLength] = {};
    std::string digits(buffer, std::to_chars(buffer, buffer + kMaxLength, value).ptr);
    if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
    raw(digits.c_str());
  }
  void string(const std::string& value) {
    separate();
    text_ += '"';
    for (std::size_t at = 0; at < value.size();) {
      const std::size_t size = character_size(value, at);
      const auto byte = static_cast<unsigned char>(value[at]);
      constexpr unsigned kFirstPrintable = 0x20;
      if (size == 0) {
        text_ += '?';
      } else if (byte < kFirstPrintable) {
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\u%04x", byte);
        text_ += escape;
      } else {
        if (byte == '"' || byte == '\\') text_ += '\\';
        text_.append(value, at, size);
      }
      at += size == 0 ? 1 : size;
    }
    text_ += '"';
  }

  /// Writes the string that `name_of` returns for a value.
  template <typename Value, typename Name>
  void name(const Value& value, Name name_of) {
    string(name_of(value));
  }

  /// Adds values that are JSON already, separated by commas.
  void values(const std::string& json) {
    if (!json.empty()) raw(json.c_str());
  }

  const std::string& text() const { return text_; }

 private:
  /// Returns the size in bytes of the UTF-8 character at `at`, or 0 if it is not well-formed.
  static std::size_t character_size(const std::string& text, std::size_t at) {
    const auto byte = [&](std::size_t i) {
      return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
    };
    const auto continues = [&](std::size_t i) { return byte(i) >= 0x80 && byte(i) <= 0xBF; };
    const unsigned lead = byte(0);
    if (lead < 0x80) return 1;
    if (lead >= 0xC2 && lead <= 0xDF) return continues(1) ? 2 : 0;
    if (lead >= 0xE0 && lead <= 0xEF) {
      // Neither overlong nor a surrogate.
      const bool allowed = (lead != 0xE0 || byte(1) >= 0xA0) && (lead != 0xED || byte(1) <= 0x9F);
      return allowed && continues(1) && continues(2) ? 3 : 0;
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
      const bool allowed = (lead != 0xF0 || byte(1) >= 0x90) && (lead != 0xF4 || byte(1) <= 0x8F);
      return allowed && continues(1) && continues(2) && continues(3) ? 4 : 0;
    }
    return 0;
  }

  void separate() {
    if (!first_) text_ += ',';
    first_ = false;
  }
  void raw(const char* value) {
    separate();
    text_ += value;
  }

  std::string text_;
  bool first_ = true;
};

}  // namespace optrace_ops

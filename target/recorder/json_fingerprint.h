#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "target/recorder/fingerprint.h"

namespace optrace_ops {

/// Takes the calls that JsonText takes, and adds to a fingerprint what they would write. A function
/// that writes to either of them therefore tells also whether a text is new, without its cost.
class JsonFingerprint {
 public:
  explicit JsonFingerprint(Fingerprint& fingerprint) : fingerprint_(fingerprint) {}

  void open(char bracket) { add_tag(bracket); }
  void close(char bracket) { add_tag(bracket); }
  /// Keys are literals, so their addresses tell them apart.
  void key(const char* name) { fingerprint_.add(reinterpret_cast<std::uintptr_t>(name)); }
  void null() { add_tag('n'); }
  void boolean(bool value) { add_tag(value ? 't' : 'f'); }
  void number(std::int64_t value) {
    add_tag('i');
    fingerprint_.add(static_cast<std::uint64_t>(value));
  }
  void number(std::uint64_t value) {
    add_tag('i');
    fingerprint_.add(value);
  }
  void number(double value) {
    add_tag('d');
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    fingerprint_.add(bits);
  }
  void string(const std::string& value) {
    add_tag('s');
    fingerprint_.add(value.data(), value.size());
  }
  /// Adds the value instead of its name.
  template <typename Value, typename Name>
  void name(const Value& value, Name) {
    static_assert(std::is_trivially_copyable<Value>::value, "the value's bytes are added");
    std::uint64_t words[(sizeof value + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t)] = {};
    std::memcpy(words, static_cast<const void*>(&value), sizeof value);
    for (const std::uint64_t word : words) fingerprint_.add(word);
  }

  Fingerprint& fingerprint() { return fingerprint_; }

 private:
  void add_tag(char tag) { fingerprint_.add(static_cast<unsigned char>(tag)); }

  Fingerprint& fingerprint_;
};

}  // namespace optrace_ops

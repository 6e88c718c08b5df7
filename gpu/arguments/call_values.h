#pragma once

// Keys and values of call records, and records of refused calls.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/emulated/device/device.h"

namespace optrace::emulated {

using optrace_ops::JsonText;

inline void put(JsonText& json, const char* key, std::int64_t value) {
  json.key(key);
  json.number(value);
}
inline void put(JsonText& json, const char* key, int value) {
  put(json, key, static_cast<std::int64_t>(value));
}
inline void put(JsonText& json, const char* key, std::size_t value) {
  json.key(key);
  json.number(static_cast<std::uint64_t>(value));
}
inline void put(JsonText& json, const char* key, double value) {
  json.key(key);
  json.number(value);
}
inline void put(JsonText& json, const char* key, bool value) {
  json.key(key);
  json.boolean(value);
}
inline void put(JsonText& json, const char* key, const std::string& value) {
  json.key(key);
  json.string(value);
}
inline void put(JsonText& json, const char* key, const char* value) {
  json.key(key);
  json.string(value);
}
template <typename Integer>
void put(JsonText& json, const char* key, const std::vector<Integer>& values) {
  json.key(key);
  json.open('[');
  for (const Integer value : values) json.number(static_cast<std::int64_t>(value));
  json.close(']');
}

/// Compute capability of the GPU model as a number: 89 for 8.9.
inline int arch() {
  return 10 * gpu_model().major + gpu_model().minor;
}
constexpr int kAmpere = 80;
constexpr int kAda = 89;
constexpr int kHopper = 90;

/// Records that the call is refused: the reason `why`.
inline void record_refusal(const char* function, const char* why) {
  Call call(function, "refused");
  put(call.json(), "why", why);
  call.record();
}

/// Records that the call is refused as by the real library: the reason `why`, and the status
/// returned, as a number and a name (empty: unknown).
inline void record_refusal(const char* function, const std::string& why, int status,
                           std::string_view name) {
  Call call(function, "refused");
  put(call.json(), "why", why);
  put(call.json(), "error", status);
  if (!name.empty()) put(call.json(), "status", std::string(name));
  call.record();
}

}  // namespace optrace::emulated

#include "pytorch/values/named_values.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace optrace {
namespace {

OpenValue value_of(std::uint64_t number) {
  constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (number > kLargest) return {number};
  return {static_cast<std::int64_t>(number)};
}

OpenValue value_of(const Constant& constant) {
  return std::visit([](const auto& value) { return OpenValue{value}; }, constant);
}

/// Collects values that are known.
class NamedValues {
 public:
  explicit NamedValues(const std::vector<NamedValue>& others) : values_(others) {}

  void add(const char* name, const std::string& text) {
    if (!text.empty()) values_.push_back({name, {text}});
  }

  void add(const char* name, const std::optional<std::uint64_t>& number) {
    if (number) values_.push_back({name, value_of(*number)});
  }

  void add(const char* name, const std::vector<std::uint64_t>& numbers) {
    if (numbers.empty()) return;
    std::vector<OpenValue> list;
    list.reserve(numbers.size());
    for (const std::uint64_t number : numbers) list.push_back(value_of(number));
    values_.push_back({name, {std::move(list)}});
  }

  void add(const char* name, const std::vector<NamedConstant>& constants) {
    if (constants.empty()) return;
    std::vector<NamedValue> members;
    members.reserve(constants.size());
    for (const NamedConstant& one : constants) members.push_back({one.name, value_of(one.value)});
    values_.push_back({name, {std::move(members)}});
  }

  void add_error(const std::optional<std::int64_t>& error) {
    if (error) values_.push_back({"error", {*error}});
  }

  std::vector<NamedValue> by_name() {
    std::ranges::sort(values_,
                      [](const NamedValue& a, const NamedValue& b) { return a.name < b.name; });
    return std::move(values_);
  }

 private:
  std::vector<NamedValue> values_;
};

}  // namespace

bool is_number(const OpenValue& value) {
  return std::holds_alternative<std::int64_t>(value.value) ||
         std::holds_alternative<std::uint64_t>(value.value) ||
         std::holds_alternative<double>(value.value);
}

std::vector<NamedValue> named_values(const LibraryCall& call) {
  NamedValues values(call.values);
  values.add("kind", call.kind);
  values.add("call", call.function);
  values.add("library", call.library);
  values.add("implementation", call.implementation);
  values.add("direction", call.direction);
  values.add("bytes", call.bytes);
  values.add_error(call.error);
  values.add("status", call.status);
  values.add("why", call.why);
  return values.by_name();
}

std::vector<NamedValue> named_values(const Launch& launch) {
  NamedValues values(launch.values);
  values.add("grid", launch.grid);
  values.add("block", launch.block);
  values.add("cluster", launch.cluster);
  values.add("shared_memory", launch.shared_memory);
  values.add("static_shared_memory", launch.static_shared_memory);
  values.add("registers", launch.registers);
  values.add("local_memory", launch.local_memory);
  values.add("num_warps", launch.num_warps);
  values.add("num_stages", launch.num_stages);
  values.add("constants", launch.constants);
  values.add("device", launch.device);
  values.add("stream", launch.stream);
  return values.by_name();
}

}  // namespace optrace

#include "report/merge/recorded_work.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>

#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

// Takes a number out of values; nothing if they have none of that name, and 0 for what is no
// number.
std::optional<std::uint64_t> take(std::string_view name, std::vector<NamedValue>& values) {
  const auto found = std::ranges::find(values, name, &NamedValue::name);
  if (found == values.end()) return std::nullopt;
  const auto* const number = std::get_if<std::int64_t>(&found->value.value);
  const std::int64_t taken = number == nullptr ? 0 : *number;
  values.erase(found);
  return static_cast<std::uint64_t>(taken);
}

}  // namespace

std::optional<RecordedWork> recorded_work(OpRecord record) {
  RecordedWork work;
  if (auto* const launched = std::get_if<KernelLaunch>(&record)) {
    Launch& launch = launched->launch;
    if (!launch.stream) return std::nullopt;
    work.stream = std::exchange(launch.stream, std::nullopt).value_or(0);
    work.device = std::exchange(launch.device, std::nullopt).value_or(0);
    work.kind.name = qualified_name(launched->kernel);
    work.kind.details = std::move(launch);
    return work;
  }
  auto* const call = std::get_if<LibraryCall>(&record);
  const auto stream = call == nullptr ? std::nullopt : take("stream", call->values);
  if (!stream) return std::nullopt;
  work.stream = *stream;
  work.device = take("device", call->values).value_or(0);
  work.kind.name = std::exchange(call->kind, {});
  if (!call->direction.empty()) work.kind.name += " " + call->direction;
  call->function.clear();
  work.kind.details = std::move(*call);
  return work;
}

}  // namespace optrace

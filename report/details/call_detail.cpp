#include "report/details/call_detail.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "platform/text/json_reader.h"
#include "report/details/recorded_variables.h"
#include "report/model/json_fields.h"

namespace optrace {
namespace {

// Keys that the frame itself, or its layer, already shows.
constexpr std::string_view kCall = "call";
constexpr std::string_view kKind = "kind";
constexpr std::string_view kKernel = "kernel";
constexpr std::string_view kFailed = "failed";
constexpr std::string_view kRefused = "refused";
constexpr std::string_view kDuration = "duration_ns";

// The most informative keys, printed first; the others follow by name.
constexpr auto kFirst = std::to_array<std::string_view>(
    {"implementation", "problem", "operations", "m", "n", "k", "batch", "batch_count", "grid",
     "block", "constants", "bytes", "direction"});

// Keys whose value is clear without the key: `jit:avx512_core`.
constexpr auto kNameless = std::to_array<std::string_view>(
    {"implementation", "problem", "tensors", "algorithm", "propagation", "attributes"});

// Returns true for values that are left out of a line: identities, weights of a sum, defaults, and
// warps, of which the block has the threads.
bool goes_without_saying(std::string_view key, const nlohmann::json& value) {
  if (key == kCall || key == kKind || key == "calls" || key == "uid" || key == "strides" ||
      key == "alpha" || key == "beta" || key == "library" || key == "num_warps")
    return true;
  if (key == "attributes") return value == "attr-scratchpad:user";  // PyTorch's default.
  return (key == "stream" || key == "shared_memory" || key == "static_shared_memory" ||
          key == "host_read" || key == "local_memory") &&
         (value == 0 || value.is_boolean());
}

/// Formats a short value: `4×3×56×56`, `true`, `float`. Empty for values that don't fit in a line.
std::string short_value(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  if (!value.is_array() || value.empty() ||
      !std::ranges::all_of(value, [](const nlohmann::json& one) { return one.is_number(); }))
    return {};
  std::string text;
  for (const nlohmann::json& one : value)
    text += fmt::format("{}{}", text.empty() ? "" : "×", one.dump());
  return text;
}

void append(std::string& line, std::string_view text) {
  line += fmt::format("{}{}", line.empty() ? "" : ", ", text);
}

/// Appends `x 4×3×56×56 float` for a tensor, `src f32 abcd` for a tensor with a format, `m 64` for
/// a number, `XBLOCK 64` for each constant, and `convolution forward: x ..., w ...` for an
/// operation.
void append_value(std::string& line, const std::string& key, const nlohmann::json& value) {
  if (value.is_object() && value.contains("dims")) {
    append(line, fmt::format("{} {} {}", key, short_value(value["dims"]), text_at(value, "type")));
  } else if (key == "constants" && value.is_object()) {
    for (const auto& [name, constant] : value.items())
      if (const std::string text = short_value(constant); !text.empty())
        append(line, fmt::format("{} {}", name, text));
  } else if (value.is_array() && !value.empty() && value.front().is_object()) {
    for (const nlohmann::json& part : value) {
      if (part.contains("name"))
        append(line, fmt::format("{} {} {}", text_at(part, "name"), text_at(part, "type"),
                                 text_at(part, "format")));
      const std::string operation = text_at(part, "operation");
      if (operation.empty()) continue;
      std::string tensors;
      for (const auto& [name, tensor] : part.items())
        if (tensor.is_object() && tensor.contains("dims")) append_value(tensors, name, tensor);
      append(line, fmt::format("{}{}{}", operation, tensors.empty() ? "" : ": ", tensors));
    }
  } else if (const std::string text = short_value(value); !text.empty()) {
    append(line, std::ranges::find(kNameless, key) == kNameless.end()
                     ? fmt::format("{} {}", key, text)
                     : text);
  }
}

/// Adds `one` to `sum`; both are {"total", "shortest", "longest"}, and `sum` may be null.
void add_duration(const nlohmann::json& one, nlohmann::json& sum) {
  if (sum.is_null()) {
    sum = one;
    return;
  }
  const auto number = [](const nlohmann::json& of, const char* key) {
    return of[key].get<std::uint64_t>();
  };
  sum = {{"total", number(sum, "total") + number(one, "total")},
         {"shortest", std::min(number(sum, "shortest"), number(one, "shortest"))},
         {"longest", std::max(number(sum, "longest"), number(one, "longest"))}};
}

}  // namespace

CallDetails::CallDetails(const Trace& trace) : trace_(trace) {
  for (std::uint32_t i = 0; i < trace.op_records.size(); ++i) {
    // Most records describe ops and are large, so search the text before parsing it.
    if (trace.op_records[i].find(kFailed) == std::string::npos) continue;
    const auto record = read_json(trace.op_records[i]);
    if (text_at(record, "kind") == kFailed && !text_at(record, "call").empty()) failures_.insert(i);
  }
}

bool CallDetails::any_failed(std::span<const OpTally> tallies) const {
  return !failures_.empty() && std::ranges::any_of(tallies, [this](const OpTally& tally) {
    return failures_.contains(tally.record);
  });
}

CallDetails::Calls CallDetails::of(std::string_view function,
                                   std::span<const OpTally> tallies) const {
  Calls result;
  for (const OpTally& tally : tallies) {
    nlohmann::json record = record_at(tally.record);
    if (!record.contains(kCall) || !record[kCall].is_string()) continue;
    const auto called = record[kCall].get<std::string>();
    const bool own = called == function;
    if (own) record.erase(kCall);
    record["calls"] = tally.calls;
    if (!own && (record[kKind] == kFailed || record[kKind] == kRefused)) {
      add_failed(called, std::move(record), result);
      continue;
    }
    add(std::move(record), static_cast<std::size_t>(&tally - tallies.data()), result);
  }
  return result;
}

std::optional<CallFailure> call_failure(const nlohmann::json& detail) {
  if (!detail.is_object()) return std::nullopt;
  const auto calls = detail.find("calls");
  if (calls == detail.end() || !calls->is_array()) return std::nullopt;
  CallFailure failure;
  std::uint64_t failed = 0;
  std::uint64_t refused = 0;
  for (const nlohmann::json& call : *calls) {
    const std::string kind = text_at(call, "kind");
    if (kind != kFailed && kind != kRefused) continue;
    (kind == kFailed ? failed : refused) += std::max<std::uint64_t>(count_at(call, "calls"), 1);
    if (failure.why.empty()) failure.why = text_at(call, "why");
    if (!failure.error.empty()) continue;
    failure.error = text_at(call, "status");
    const auto number = call.find("error");
    if (number == call.end() || !number->is_number_integer()) continue;
    failure.error = failure.error.empty() ? fmt::format("error {}", number->dump())
                                          : fmt::format("{} ({})", failure.error, number->dump());
  }
  if (failed + refused == 0) return std::nullopt;
  failure.refused = failed == 0;
  failure.calls = failed == 0 ? refused : failed;
  return failure;
}

CallDetails::Calls CallDetails::of(std::span<const ActivityTally> tallies) const {
  Calls result;
  for (const ActivityTally& tally : tallies) {
    nlohmann::json record = record_at(tally.record);
    if (record.is_null()) continue;
    record["calls"] = tally.times;
    record[kDuration] = {{"total", tally.total_time},
                         {"shortest", tally.shortest_time},
                         {"longest", tally.longest_time}};
    add(std::move(record), static_cast<std::size_t>(&tally - tallies.data()), result);
  }
  return result;
}

nlohmann::json CallDetails::record_at(std::uint32_t number) const {
  if (number == 0 || number >= trace_.op_records.size()) return {};
  nlohmann::json record = read_json(trace_.op_records[number]);
  const bool sound = record.is_object() && record.contains(kKind) && record[kKind].is_string();
  return sound ? record : nlohmann::json();
}

void CallDetails::add_failed(const std::string& function, nlohmann::json record, Calls& result) {
  const auto [place, added] = result.failed_places.emplace(function, result.failed.size());
  if (added) result.failed.push_back({.function = function, .calls = 0, .detail = {}});
  Failed* const failed = &result.failed[place->second];
  const auto calls = record["calls"].get<std::uint64_t>();
  // A refused call that also fails has two records: don't count it twice.
  failed->calls = record[kKind] == kFailed ? failed->calls + calls : std::max(failed->calls, calls);
  record.erase(kCall);
  failed->detail["calls"].push_back(std::move(record));
}

void CallDetails::add(nlohmann::json record, std::size_t tally, Calls& result) {
  result.reads_device = result.reads_device || record.value("host_read", nlohmann::json()) == true;
  if (record[kKind] != kKernel || !record.contains(kKernel) || !record[kKernel].is_string()) {
    result.calls.push_back(std::move(record));
    return;
  }
  const auto symbol = record[kKernel].get<std::string>();
  const auto [place, added] = result.launch_places.emplace(symbol, result.launches.size());
  if (added)
    result.launches.push_back({.symbol = symbol, .calls = 0, .detail = {}, .first = tally});
  Launch* const launch = &result.launches[place->second];
  for (const std::string_view known : {kCall, kKind, kKernel}) record.erase(known);
  launch->calls += record["calls"].get<std::uint64_t>();
  if (record.contains(kDuration)) add_duration(record[kDuration], launch->detail[kDuration]);
  launch->detail["launches"].push_back(std::move(record));
}

std::string call_line(const nlohmann::json& record) {
  std::string line;
  // The called function has no frame of its own, so name it here.
  if (const std::string library = text_at(record, "library"); !library.empty())
    if (const std::string call = text_at(record, "call"); !call.empty())
      append(line, fmt::format("{} {}", library, call));
  for (const std::string_view key : kFirst) {
    const auto found = record.find(key);
    if (found != record.end()) append_value(line, std::string(key), *found);
  }
  // Those of PyTorch's own kernels tell a user little.
  const bool with_registers = record.contains("num_stages");
  for (const auto& [key, value] : record.items())
    if (std::ranges::find(kFirst, key) == kFirst.end() && !goes_without_saying(key, value) &&
        (with_registers || key != "registers"))
      append_value(line, key, value);
  return line;
}

std::string call_note(const nlohmann::json& detail) {
  if (!detail.is_object()) return {};
  if (const auto failure = call_failure(detail)) {
    std::string text = failure->refused ? "refused" : "failed";
    for (const std::string& more : {failure->error, failure->why})
      if (!more.empty()) text += ": " + more;
    return text;
  }
  for (const char* const key : {"calls", "launches"}) {
    const auto found = detail.find(key);
    if (found == detail.end() || !found->is_array() || found->empty() ||
        !found->front().is_object())
      continue;
    std::string line = call_line(found->front());
    if (found->size() > 1)
      line += fmt::format("; and {} other kind{}", found->size() - 1, found->size() > 2 ? "s" : "");
    return line;
  }
  return variables_note(detail);
}

}  // namespace optrace

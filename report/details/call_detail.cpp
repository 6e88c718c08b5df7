#include "report/details/call_detail.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include <fmt/core.h>

#include "pytorch/values/named_values.h"
#include "report/details/recorded_variables.h"
#include "report/json/detail_json.h"

namespace optrace {
namespace {

// The most informative keys, printed first; the others follow by name.
constexpr auto kFirst = std::to_array<std::string_view>(
    {"implementation", "problem", "operations", "m", "n", "k", "batch", "batch_count", "grid",
     "block", "constants", "bytes", "direction"});

// Keys whose value is clear without the key: `jit:avx512_core`.
constexpr auto kNameless = std::to_array<std::string_view>(
    {"implementation", "problem", "tensors", "algorithm", "propagation", "attributes"});

bool is_zero(const OpenValue& value) {
  const auto* const number = std::get_if<std::int64_t>(&value.value);
  return std::holds_alternative<bool>(value.value) || (number != nullptr && *number == 0);
}

// Returns true for values that are left out of a line: what the frame itself shows, identities,
// weights of a sum, defaults, and warps, of which the block has the threads.
bool is_omitted(std::string_view key, const OpenValue& value) {
  if (key == "call" || key == "kind" || key == "library" || key == "uid" || key == "strides" ||
      key == "alpha" || key == "beta" || key == "num_warps")
    return true;
  if (key == "attributes")  // PyTorch's default.
    return value == OpenValue{std::string("attr-scratchpad:user")};
  return (key == "stream" || key == "shared_memory" || key == "static_shared_memory" ||
          key == "host_read" || key == "local_memory") &&
         is_zero(value);
}

// Formats a number or text: `64`, `true`, `float`. Empty for other values.
std::string single_value(const OpenValue& value) {
  if (const auto* const text = std::get_if<std::string>(&value.value)) return *text;
  const bool single = !std::holds_alternative<std::vector<OpenValue>>(value.value) &&
                      !std::holds_alternative<std::vector<NamedValue>>(value.value) &&
                      !std::holds_alternative<std::monostate>(value.value);
  return single ? value_json(value) : std::string();
}

// Formats a short value: `4×3×56×56`, `true`, `float`. Empty for values that don't fit in a line.
std::string short_value(const OpenValue& value) {
  const auto* const list = std::get_if<std::vector<OpenValue>>(&value.value);
  if (list == nullptr) return single_value(value);
  if (!std::ranges::all_of(*list, is_number)) return {};
  std::string text;
  for (const OpenValue& one : *list)
    text += fmt::format("{}{}", text.empty() ? "" : "×", single_value(one));
  return text;
}

const OpenValue* find(const std::vector<NamedValue>& members, std::string_view name) {
  const auto found = std::ranges::find(members, name, &NamedValue::name);
  return found == members.end() ? nullptr : &found->value;
}

std::string text_of(const std::vector<NamedValue>& members, std::string_view name) {
  const OpenValue* const value = find(members, name);
  const auto* const text = value == nullptr ? nullptr : std::get_if<std::string>(&value->value);
  return text == nullptr ? std::string() : *text;
}

const std::vector<NamedValue>* members_of(const OpenValue& value) {
  return std::get_if<std::vector<NamedValue>>(&value.value);
}

void append(std::string& line, std::string_view text) {
  line += fmt::format("{}{}", line.empty() ? "" : ", ", text);
}

// Appends `x 4×3×56×56 float` for a tensor. Returns false for another value.
bool append_tensor(std::string& line, const NamedValue& named) {
  const std::vector<NamedValue>* const members = members_of(named.value);
  const OpenValue* const dims = members == nullptr ? nullptr : find(*members, "dims");
  if (dims == nullptr) return false;
  append(line, fmt::format("{} {} {}", named.name, short_value(*dims), text_of(*members, "type")));
  return true;
}

// Appends `src f32 abcd` for a tensor with a format, and `convolution forward: x ..., w ...` for an
// operation.
void append_part(std::string& line, const std::vector<NamedValue>& part) {
  if (find(part, "name") != nullptr)
    append(line, fmt::format("{} {} {}", text_of(part, "name"), text_of(part, "type"),
                             text_of(part, "format")));
  const std::string operation = text_of(part, "operation");
  if (operation.empty()) return;
  std::string tensors;
  for (const NamedValue& one : part) append_tensor(tensors, one);
  append(line, fmt::format("{}{}{}", operation, tensors.empty() ? "" : ": ", tensors));
}

// Appends `XBLOCK 64` for each constant, `m 64` for a number, and what the functions above do.
void append_value(std::string& line, const NamedValue& named) {
  if (append_tensor(line, named)) return;
  const auto* const list = std::get_if<std::vector<OpenValue>>(&named.value.value);
  const std::vector<NamedValue>* const members = members_of(named.value);
  if (named.name == "constants" && members != nullptr) {
    for (const auto& [name, constant] : *members)
      if (const std::string text = short_value(constant); !text.empty())
        append(line, fmt::format("{} {}", name, text));
  } else if (list != nullptr && !list->empty() && members_of(list->front()) != nullptr) {
    for (const OpenValue& part : *list)
      if (members_of(part) != nullptr) append_part(line, *members_of(part));
  } else if (const std::string text = short_value(named.value); !text.empty()) {
    append(line, std::ranges::find(kNameless, named.name) == kNameless.end()
                     ? fmt::format("{} {}", named.name, text)
                     : text);
  }
}

void append_values(std::string& line, const std::vector<NamedValue>& values) {
  for (const std::string_view key : kFirst)
    if (const auto found = std::ranges::find(values, key, &NamedValue::name); found != values.end())
      append_value(line, *found);
  // Those of PyTorch's own kernels tell a user little.
  const bool with_registers = find(values, "num_stages") != nullptr;
  for (const NamedValue& one : values)
    if (std::ranges::find(kFirst, one.name) == kFirst.end() && !is_omitted(one.name, one.value) &&
        (with_registers || one.name != "registers"))
      append_value(line, one);
}

// Returns true if the host read values from device memory.
bool reads_device(const std::vector<NamedValue>& values) {
  const OpenValue* const read = find(values, "host_read");
  return read != nullptr && *read == OpenValue{true};
}

void add_duration(const Duration& one, std::optional<Duration>& sum) {
  sum = sum ? Duration{sum->total + one.total, std::min(sum->shortest, one.shortest),
                       std::max(sum->longest, one.longest)}
            : one;
}

}  // namespace

CallDetails::CallDetails(const Trace& trace, const OpRecords& records) : records_(records) {
  for (std::uint32_t i = 0; i < trace.op_records.size(); ++i) {
    // Most records describe ops and are large, so search the text before reading it.
    if (trace.op_records[i].find("failed") == std::string::npos) continue;
    const auto* const call = records.find<LibraryCall>(i);
    if (call != nullptr && call->has_failed() && !call->function.empty()) failures_.insert(i);
  }
}

bool CallDetails::any_failed(std::span<const OpCallCount> counts) const {
  return !failures_.empty() && std::ranges::any_of(counts, [this](const OpCallCount& counted) {
    return failures_.contains(counted.record);
  });
}

CallDetails::Calls CallDetails::of(std::string_view function,
                                   std::span<const OpCallCount> counts) const {
  Calls result;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto& [number, results, calls] = counts[i];
    if (const auto* const launched = records_.find<KernelLaunch>(number)) {
      if (launched->called) add(*launched, calls, std::nullopt, i, result);
      continue;
    }
    const auto* const call = records_.find<LibraryCall>(number);
    if (call == nullptr || call->function.empty()) continue;
    if (call->function != function && (call->has_failed() || call->is_refused())) {
      add_failed(*call, calls, result);
      continue;
    }
    add(*call, calls, std::nullopt, result);
    if (call->function == function) result.calls.back().function.clear();
  }
  return result;
}

std::optional<CallFailure> call_failure(const Detail& detail) {
  CallFailure failure;
  std::uint64_t failed = 0;
  std::uint64_t refused = 0;
  for (const LibraryCall& call : detail.calls) {
    if (!call.has_failed() && !call.is_refused()) continue;
    (call.has_failed() ? failed : refused) += std::max<std::uint64_t>(call.calls, 1);
    if (failure.why.empty()) failure.why = call.why;
    if (!failure.error.empty()) continue;
    failure.error = call.status;
    if (call.error)
      failure.error = failure.error.empty() ? fmt::format("error {}", *call.error)
                                            : fmt::format("{} ({})", failure.error, *call.error);
  }
  if (failed + refused == 0) return std::nullopt;
  failure.refused = failed == 0;
  failure.calls = failed == 0 ? refused : failed;
  return failure;
}

CallDetails::Calls CallDetails::of(std::span<const ActivityCount> counts) const {
  Calls result;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const ActivityCount& counted = counts[i];
    const Duration duration{counted.total_time, counted.shortest_time, counted.longest_time};
    if (const auto* const launched = records_.find<KernelLaunch>(counted.record))
      add(*launched, counted.times, duration, i, result);
    else if (const auto* const call = records_.find<LibraryCall>(counted.record))
      add(*call, counted.times, duration, result);
  }
  return result;
}

void CallDetails::add_failed(const LibraryCall& call, std::uint64_t calls, Calls& result) {
  const auto [place, added] = result.failed_places.emplace(call.function, result.failed.size());
  if (added) result.failed.push_back({.function = call.function, .calls = 0, .records = {}});
  Failed& failed = result.failed[place->second];
  // A refused call that also fails has two records: don't count it twice.
  failed.calls = call.has_failed() ? failed.calls + calls : std::max(failed.calls, calls);
  LibraryCall& record = failed.records.emplace_back(call);
  record.function.clear();
  record.calls = calls;
}

void CallDetails::add(const LibraryCall& call, std::uint64_t calls,
                      const std::optional<Duration>& duration, Calls& result) {
  result.reads_device = result.reads_device || reads_device(call.values);
  LibraryCall& added = result.calls.emplace_back(call);
  added.calls = calls;
  added.duration = duration;
}

void CallDetails::add(const KernelLaunch& launched, std::uint64_t calls,
                      const std::optional<Duration>& duration, std::size_t counted, Calls& result) {
  result.reads_device = result.reads_device || reads_device(launched.launch.values);
  const auto [place, added] = result.kernel_places.emplace(launched.kernel, result.kernels.size());
  if (added)
    result.kernels.push_back(
        {.symbol = launched.kernel, .calls = 0, .launches = {}, .duration = {}, .first = counted});
  Kernel& kernel = result.kernels[place->second];
  kernel.calls += calls;
  Launch& launch = kernel.launches.emplace_back(launched.launch);
  launch.calls = calls;
  launch.duration = duration;
  if (duration) add_duration(*duration, kernel.duration);
}

std::string call_line(const LibraryCall& call) {
  return call_line(named_values(call));
}

std::string call_line(const Launch& launch) {
  return call_line(named_values(launch));
}

std::string call_line(const std::vector<NamedValue>& values) {
  std::string line;
  // The called function has no frame of its own, so name it here.
  const std::string library = text_of(values, "library"), function = text_of(values, "call");
  if (!library.empty() && !function.empty()) append(line, fmt::format("{} {}", library, function));
  append_values(line, values);
  return line;
}

std::string call_note(const Detail& detail) {
  if (const auto failure = call_failure(detail)) {
    std::string text = failure->refused ? "refused" : "failed";
    for (const std::string& more : {failure->error, failure->why})
      if (!more.empty()) text += ": " + more;
    return text;
  }
  const std::size_t kinds = detail.calls.empty() ? detail.launches.size() : detail.calls.size();
  if (kinds == 0) return variables_note(detail.variables);
  std::string line =
      detail.calls.empty() ? call_line(detail.launches.front()) : call_line(detail.calls.front());
  if (kinds > 1) line += fmt::format("; and {} other kind{}", kinds - 1, kinds > 2 ? "s" : "");
  return line;
}

}  // namespace optrace

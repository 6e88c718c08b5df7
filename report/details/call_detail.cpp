#include "report/details/call_detail.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "platform/text/json_fields.h"
#include "platform/text/json_reader.h"
#include "pytorch/values/named_values.h"
#include "pytorch/values/values_json.h"
#include "report/details/recorded_variables.h"

namespace optrace {
namespace {

constexpr const char* kKernel = "kernel";

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
  return single ? to_json(value).dump() : std::string();
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

void add_duration(const Duration& one, std::optional<Duration>& sum) {
  sum = sum ? Duration{sum->total + one.total, std::min(sum->shortest, one.shortest),
                       std::max(sum->longest, one.longest)}
            : one;
}

}  // namespace

// A record of a library call or of device activity: a kernel's launch, or another call.
struct CallDetails::Record {
  std::string kernel;  // Its symbol; empty for another call.
  Launch launch;       // Of a kernel.
  LibraryCall call;    // Another call.
  bool has_function = false;
  bool reads_device = false;

  // Returns nothing if the trace has no such record.
  static std::optional<Record> read(const Trace& trace, std::uint32_t number) {
    if (number == 0 || number >= trace.op_records.size()) return std::nullopt;
    nlohmann::json json = read_json(trace.op_records[number]);
    if (!value_at(json, "kind").is_string()) return std::nullopt;
    Record record;
    record.has_function = value_at(json, "call").is_string();
    record.reads_device = flag_at(json, "host_read");
    if (text_at(json, "kind") == kKernel) record.kernel = text_at(json, kKernel);
    if (record.kernel.empty()) {
      record.call = library_call_of(json);
    } else {
      for (const char* const known : {"call", "kind", kKernel}) json.erase(known);
      record.launch = launch_of(json);
    }
    return record;
  }
};

CallDetails::CallDetails(const Trace& trace) : trace_(trace) {
  for (std::uint32_t i = 0; i < trace.op_records.size(); ++i) {
    // Most records describe ops and are large, so search the text before parsing it.
    if (trace.op_records[i].find("failed") == std::string::npos) continue;
    const LibraryCall call = library_call_of(read_json(trace.op_records[i]));
    if (call.has_failed() && !call.function.empty()) failures_.insert(i);
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
    std::optional<Record> record = Record::read(trace_, counts[i].record);
    if (!record || !record->has_function) continue;
    LibraryCall& call = record->call;
    const bool own = call.function == function;
    if (!own && (call.has_failed() || call.is_refused())) {
      add_failed(call.function, call, counts[i].calls, result);
      continue;
    }
    if (own) call.function.clear();
    add(*std::move(record), counts[i].calls, std::nullopt, i, result);
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
    if (std::optional<Record> record = Record::read(trace_, counted.record))
      add(*std::move(record), counted.times,
          Duration{counted.total_time, counted.shortest_time, counted.longest_time}, i, result);
  }
  return result;
}

void CallDetails::add_failed(const std::string& function, LibraryCall call, std::uint64_t calls,
                             Calls& result) {
  const auto [place, added] = result.failed_places.emplace(function, result.failed.size());
  if (added) result.failed.push_back({.function = function, .calls = 0, .records = {}});
  Failed& failed = result.failed[place->second];
  // A refused call that also fails has two records: don't count it twice.
  failed.calls = call.has_failed() ? failed.calls + calls : std::max(failed.calls, calls);
  call.function.clear();
  call.calls = calls;
  failed.records.push_back(std::move(call));
}

void CallDetails::add(Record record, std::uint64_t calls, const std::optional<Duration>& duration,
                      std::size_t counted, Calls& result) {
  result.reads_device = result.reads_device || record.reads_device;
  if (record.kernel.empty()) {
    record.call.calls = calls;
    record.call.duration = duration;
    result.calls.push_back(std::move(record.call));
    return;
  }
  const auto [place, added] = result.kernel_places.emplace(record.kernel, result.kernels.size());
  if (added)
    result.kernels.push_back(
        {.symbol = record.kernel, .calls = 0, .launches = {}, .duration = {}, .first = counted});
  Kernel& kernel = result.kernels[place->second];
  kernel.calls += calls;
  record.launch.calls = calls;
  record.launch.duration = duration;
  if (duration) add_duration(*duration, kernel.duration);
  kernel.launches.push_back(std::move(record.launch));
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

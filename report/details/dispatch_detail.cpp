#include "report/details/dispatch_detail.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/core.h>

#include "platform/text/joined.h"
#include "pytorch/names/dispatch_keys.h"
#include "report/json/detail_json.h"
#include "report/model/op_call.h"
#include "report/tensors/tensor_detail.h"

namespace optrace {
namespace {

constexpr std::size_t kMaxLineLength = 4096;  // Of a table.

// One line of torch._C._dispatch_dump_table's output, for one key:
// `registered at /pytorch/build/aten/src/ATen/RegisterCPU.cpp:30477 [kernel]`
struct TableEntry {
  std::string kernel;  // The whole text.
  std::string where;   // `registered at ...:30477`
  std::string reason;  // `kernel`, `backend fallback`, ...
  bool falls_through = false;
};
using Table = std::map<std::string, TableEntry, std::less<>>;

Table read_table(std::string_view text) {
  Table table;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t colon = line.find(": ");
    if (colon == std::string_view::npos || line.size() > kMaxLineLength) continue;
    TableEntry entry;
    entry.kernel = line.substr(colon + 2);
    const std::size_t bracket = entry.kernel.rfind(" [");
    if (bracket != std::string::npos && entry.kernel.ends_with(']')) {
      entry.where = entry.kernel.substr(0, bracket);
      entry.reason = entry.kernel.substr(bracket + 2);
      entry.reason.pop_back();
    } else {
      entry.where = entry.kernel;
    }
    constexpr std::string_view kFallthrough = "fallthrough ";
    if (entry.where.starts_with(kFallthrough)) {
      entry.falls_through = true;
      entry.where.erase(0, kFallthrough.size());
    }
    table.emplace(line.substr(0, colon), std::move(entry));
  }
  return table;
}

// Returns `aten/src/ATen/native/NegateFallback.cpp:18` for `registered at /pytorch/aten/...:18`.
// Empty if the kernel has no file (/dev/null for kernels registered in Python by torch 2.6).
std::string registered_at(std::string_view where, const std::filesystem::path& torch_folder) {
  constexpr std::string_view kRegistered = "registered at ";
  if (!where.starts_with(kRegistered)) return {};
  std::string path(where.substr(kRegistered.size()));
  const std::size_t colon = path.rfind(':');
  if (path.starts_with("/dev/null") || colon == std::string::npos || colon + 1 == path.size() ||
      path.find_first_not_of("0123456789", colon + 1) != std::string::npos)
    return {};
  const std::string packages = torch_folder.parent_path().string() + "/";
  if (packages.size() > 1 && path.starts_with(packages)) return path.substr(packages.size());
  // In wheel builds, the source folder is called pytorch.
  for (const std::string_view top : {"/pytorch/aten/", "/pytorch/torch/", "/pytorch/c10/",
                                     "/pytorch/build/", "/pytorch/caffe2/"}) {
    const std::size_t at = path.find(top);
    if (at != std::string::npos) return path.substr(at + std::string_view("/pytorch/").size());
  }
  while (path.starts_with("../")) path.erase(0, 3);
  return path;
}

}  // namespace

struct DispatchDetails::State {
  State(const Trace& trace, const OpRecords& given)
      : meta(trace.meta), records(given), names(given.key_names()), tensors(trace) {}

  const Table& table(std::string_view op) {
    const auto known = tables.find(op);
    if (known != tables.end()) return known->second;
    std::string text;
    if (const auto& all = meta.dispatch_tables)
      if (const auto found = all->find(std::string(op)); found != all->end()) text = found->second;
    return tables.emplace(op, read_table(text)).first->second;
  }

  bool takes_a_stack(std::string_view op, const TableEntry& entry) const {
    const auto& all = meta.boxed_kernels;
    if (!all) return false;
    const auto boxed = all->find(std::string(op));
    return boxed != all->end() &&
           std::ranges::find(boxed->second, entry.where) != boxed->second.end();
  }

  // Adds the dispatcher's choice for a key set. A redispatch uses the first key: fallthrough keys
  // were removed before.
  void choose(std::string_view op, std::uint64_t set, bool redispatch, DispatchChoice& choice) {
    choice.key_set = names.all(set);
    choose_among(op, names.candidates(*choice.key_set), redispatch, choice);
  }

  void choose_among(std::string_view op, DispatchKeys candidates, bool redispatch,
                    DispatchChoice& choice) {
    const Table& entries = table(op);
    if (entries.empty()) return;
    candidates.emplace_back("Undefined");
    DispatchKeys fallthrough;
    for (const std::string& key : candidates) {
      const auto entry = entries.find(key);
      const bool registered = entry != entries.end();
      if (registered && entry->second.falls_through && !redispatch) {
        fallthrough.push_back(key);
        continue;
      }
      choice.dispatch_key = key;
      if (registered) {
        choice.kernel = entry->second.kernel;
        choice.registered_at = registered_at(entry->second.where, meta.torch_folder);
        choice.dispatch = is_python_dispatch_key(key)                  ? "python"
                          : entry->second.reason == "backend fallback" ? "boxed fallback"
                          : takes_a_stack(op, entry->second)           ? "boxed kernel"
                                                                       : "kernel";
      }
      break;
    }
    if (!redispatch) choice.fallthrough = std::move(fallthrough);
  }

  // Returns what a call's record says by itself, and the dispatcher's choice for it.
  DispatchDetail describe(const OpCallRecord& call) {
    DispatchDetail detail;
    detail.schema = call.schema;
    detail.arguments = call.arguments;
    detail.grad_mode = call.grad_mode;
    detail.inference_mode = call.inference_mode;
    detail.dispatch_modes = call.dispatch_modes;
    if (!call.key_set || !names.known()) return detail;
    detail.choice.included = names.all(call.included.value_or(0));
    detail.choice.excluded = names.all(call.excluded.value_or(0));
    choose(call.op, *call.key_set, false, detail.choice);
    return detail;
  }

  DispatchDetail call_of(const Step& step, std::vector<Origin>& origins);
  DispatchDetail redispatch_of(const Step& step);
  std::optional<std::uint64_t> key_set_of(const Step& step, const ArgumentCount& counted);
  bool returns_in_memory(std::string_view schema, bool& known) const;
  const std::string& schema_of(std::string_view op);

  const TraceMeta& meta;
  const OpRecords& records;
  const KeyNames& names;
  TensorDetails tensors;
  std::map<std::string, Table, std::less<>> tables;
  std::map<std::string, std::string, std::less<>> schemas;
};

DispatchDetail DispatchDetails::State::call_of(const Step& step, std::vector<Origin>& origins) {
  // One entry for each record, in the order of first occurrence, or sorted by content if that order
  // is random.
  struct Variant {
    std::uint32_t record = 0;
    const OpCallRecord* call = nullptr;
    const OpResults* results = nullptr;  // Null if they were not recorded.
    std::uint64_t calls = 0;
  };
  std::vector<Variant> variants;
  std::map<std::uint32_t, std::uint64_t> calls_by_results;
  std::uint64_t repeated_calls = 0;
  for (const OpCallCount& counted : step.ops) {
    const auto* const call = records.find<OpCallRecord>(counted.record);
    if (call == nullptr || (!step.op.empty() && call->op != step.op)) continue;
    const auto* const results = records.find<OpResults>(counted.results);
    if (results != nullptr && results->repeated) repeated_calls += counted.calls;
    if (counted.results != 0) calls_by_results[counted.results] += counted.calls;
    const auto same = std::ranges::find(variants, counted.record, &Variant::record);
    if (same == variants.end()) {
      variants.push_back({counted.record, call, results, counted.calls});
    } else {
      same->calls += counted.calls;
      if (same->results == nullptr) same->results = results;
    }
  }
  if (variants.empty()) return {};
  if (step.by_threads && variants.size() > 1)
    std::ranges::stable_sort(variants, {}, [&](const Variant& one) {
      Detail detail;
      detail.dispatch = describe(*one.call);
      return detail_json(detail);
    });
  const Variant& most = *std::ranges::max_element(variants, {}, &Variant::calls);
  DispatchDetail detail = describe(*most.call);
  if (most.results != nullptr) detail.results = most.results->results;
  if (calls_by_results.size() > 1)
    for (const auto& [number, count] : calls_by_results)
      if (const auto* const results = records.find<OpResults>(number))
        add_new_tensors(results->results, count, detail.new_tensors);
  detail.tensors = tensors.of(most.record);
  if (variants.size() > 1)
    for (const Variant& variant : variants) {
      DispatchDetail described = describe(*variant.call);
      detail.variants.push_back({variant.calls, std::move(described.arguments), std::nullopt,
                                 std::move(described.choice.dispatch_key)});
    }
  std::set<std::pair<std::string, std::uint32_t>> script_lines;
  for (const auto& [record, call, results, calls] : variants)
    if (!call->script_file.empty()) script_lines.emplace(call->script_file, call->script_line);
  for (const auto& [file, line] : script_lines) origins.push_back({{}, {}, file, line, {}});
  detail.repeated_calls = repeated_calls;
  detail.variants_left_out = step.ops_left_out;
  return detail;
}

// Returns an op's schema, taken from any record of its calls.
const std::string& DispatchDetails::State::schema_of(std::string_view op) {
  if (schemas.empty()) {
    for (std::uint32_t i = 1; i < records.size(); ++i)
      if (const auto* const call = records.find<OpCallRecord>(i))
        schemas.emplace(call->op, call->schema);
  }
  static const std::string kUnknown;
  const auto found = schemas.find(op);
  return found == schemas.end() ? kUnknown : found->second;
}

// Returns true if a function with this schema has a hidden first argument for its result. x86-64's
// calling convention adds it for non-trivial classes (Tensor, tuples of them, SymInt, Scalar), but
// not for references (returned by in-place ops) and numbers.
bool DispatchDetails::State::returns_in_memory(std::string_view schema, bool& known) const {
  const std::size_t arrow = schema.rfind(" -> ");
  known = arrow != std::string_view::npos;
  if (!known) return false;
  const std::string_view result = schema.substr(arrow + std::string_view(" -> ").size());
  if (result.find('!') != std::string_view::npos) {
    known = !result.starts_with('(');  // Compilers differ for tuples of references.
    return false;
  }
  return result != "()" && result != "int" && result != "bool" && result != "float" &&
         result != "ScalarType";
}

std::optional<std::uint64_t> DispatchDetails::State::key_set_of(const Step& step,
                                                                const ArgumentCount& counted) {
  // A merged trace has the set alone, as the first one.
  const bool only_second = step.boxed && counted.second != 0;
  const bool first = !only_second && names.plausible(counted.first);
  const bool second = names.plausible(counted.second);
  if (!first && !second) return std::nullopt;
  if (first != second) return first ? counted.first : counted.second;
  bool known = false;
  const bool in_memory = returns_in_memory(schema_of(step.op), known);
  return known && in_memory ? counted.second : counted.first;
}

DispatchDetail DispatchDetails::State::redispatch_of(const Step& step) {
  DispatchDetail detail;
  detail.step = DispatchStep::redispatch;
  if (!names.known()) return detail;
  std::map<std::uint64_t, std::uint64_t> sets;
  for (const ArgumentCount& counted : step.arguments)
    if (const auto set = key_set_of(step, counted)) sets[*set] += counted.calls;
  if (sets.empty()) return detail;
  const auto most =
      std::ranges::max_element(sets, {}, [](const auto& entry) { return entry.second; });
  choose(step.op, most->first, true, detail.choice);
  if (sets.size() == 1) return detail;
  for (const auto& [set, count] : sets) {
    DispatchChoice choice;
    choose(step.op, set, true, choice);
    detail.variants.push_back(
        {count, std::nullopt, std::move(choice.key_set), std::move(choice.dispatch_key)});
  }
  return detail;
}

DispatchDetails::DispatchDetails(const Trace& trace, const OpRecords& records)
    : state_(std::make_unique<State>(trace, records)) {}
DispatchDetails::~DispatchDetails() = default;

DispatchDetail DispatchDetails::of(const Step& step, std::vector<Origin>& origins) const {
  DispatchDetail detail =
      step.redispatch ? state_->redispatch_of(step) : state_->call_of(step, origins);
  if (step.unboxed && detail.choice.dispatch == "boxed kernel") detail.choice.dispatch = "kernel";
  return detail;
}

DispatchDetail DispatchDetails::handed_on(std::string_view op, const DispatchDetail& from) const {
  DispatchDetail detail;
  detail.step = DispatchStep::redispatch;
  const auto hands_on = [&](const std::string& key) {
    const auto entry = state_->table(op).find(key);
    return entry != state_->table(op).end() &&
           (entry->second.reason == "backend fallback" || state_->takes_a_stack(op, entry->second));
  };
  // Of the kinds of calls that took the step, one that a boxed kernel got.
  std::optional<DispatchKeys> keys = from.choice.key_set;
  std::string key = from.choice.dispatch_key;
  for (const CallVariant& variant : from.variants)
    if (!hands_on(key) && variant.key_set)
      std::tie(keys, key) = std::tie(variant.key_set, variant.dispatch_key);
  if (!keys || !hands_on(key)) return detail;
  keys->erase(keys->begin(), std::ranges::find(*keys, key));
  DispatchKeys candidates = state_->names.candidates(*keys);
  if (candidates.empty() || candidates.front() != key) return detail;
  candidates.erase(candidates.begin());
  keys->erase(keys->begin());
  detail.choice.key_set = std::move(keys);
  state_->choose_among(op, std::move(candidates), false, detail.choice);
  detail.choice.fallthrough.reset();  // The keys were removed before, as from every redispatch.
  return detail;
}

std::string dispatch_note(const DispatchDetail& dispatch) {
  const DispatchChoice& choice = dispatch.choice;
  if (choice.dispatch_key.empty()) return {};
  const auto first_of = [](DispatchKeys keys) {
    constexpr std::size_t kMaxKeys = 5;
    if (keys.size() > kMaxKeys) {
      keys.resize(kMaxKeys);
      keys.emplace_back("...");
    }
    return joined(keys, ", ");
  };
  std::string note = "→ " + choice.dispatch_key;
  const std::string& kind = choice.dispatch;
  if (kind == "boxed fallback" || kind == "boxed kernel" || kind == "python") note += ", " + kind;
  std::vector<std::string> notes;
  if (choice.key_set && choice.key_set->size() > 1)
    notes.push_back("of " + first_of(*choice.key_set));
  if (choice.fallthrough && !choice.fallthrough->empty())
    notes.push_back("skips " + first_of(*choice.fallthrough));
  if (!notes.empty()) note += fmt::format(" ({})", joined(notes, "; "));
  return note;
}

}  // namespace optrace

#include "report/details/dispatch_detail.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <filesystem>
#include <map>
#include <ranges>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "platform/text/joined.h"
#include "platform/text/json_fields.h"
#include "platform/text/json_reader.h"
#include "pytorch/names/dispatch_keys.h"
#include "pytorch/values/values_json.h"
#include "report/json/detail_json.h"
#include "report/model/op_call.h"
#include "report/tensors/tensor_detail.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxRecordLength = 1 << 20;  // Bytes. The agent writes a few kilobytes.
constexpr std::size_t kMaxTextLength = 4096;       // Length limit of a string in a record.
constexpr std::size_t kMaxArguments = 256;
constexpr std::size_t kMaxElements = 128;  // Limit for a list or a shape.
constexpr unsigned kWordBits = 64;

// Returns a member of a record; null if there is none.
const Json* member(const Json& object, const char* key) {
  const Json& value = value_at(object, key);
  return value.is_null() ? nullptr : &value;
}

std::string text_in(const Json& object, const char* key) {
  return text_at(object, key).substr(0, kMaxTextLength);
}

// Names the bits of a raw DispatchKeySet (c10/core/DispatchKeySet.h): one for each backend, lowest
// first, then one for each functionality, in order of rising priority.
class KeyNames {
 public:
  explicit KeyNames(const Json& record) {
    const Json* const names = member(record, "key_names");
    if (names == nullptr) return;
    const auto backends = number_at(*names, "backends");
    const Json* const functionalities = member(*names, "functionalities");
    if (!backends || functionalities == nullptr || !functionalities->is_array() ||
        *backends >= kWordBits || functionalities->size() > kWordBits - *backends)
      return;
    std::vector<Functionality> read;
    for (const Json& functionality : *functionalities) {
      Functionality& entry = read.emplace_back();
      entry.name = functionality.is_string() ? functionality.get<std::string>()
                                             : text_in(functionality, "name");
      if (entry.name.empty()) return;
      const Json* const keys = member(functionality, "keys");
      if (keys == nullptr) continue;
      if (!keys->is_array() || keys->size() != *backends) return;
      for (const Json& key : *keys) {
        if (!key.is_string()) return;
        entry.of_backend.push_back(key.get<std::string>());
      }
    }
    backends_ = static_cast<unsigned>(*backends);
    functionalities_ = std::move(read);
  }

  bool known() const { return !functionalities_.empty(); }

  // Returns all keys of a set, sorted by dispatch priority, highest first.
  std::vector<std::string> all(std::uint64_t set) const {
    std::vector<std::string> result;
    each(set, [&](const Functionality& functionality) {
      std::size_t added = 0;
      for (unsigned backend = backends_; backend-- > 0;) {
        if (functionality.of_backend.empty() || !has(set, backend)) continue;
        result.push_back(functionality.of_backend[backend]);
        ++added;
      }
      if (added == 0) result.push_back(functionality.name);
    });
    return result;
  }

  // Returns the keys that the dispatcher tries one after the other: for a functionality with a key
  // for each backend, only the key of the backend with the highest priority.
  std::vector<std::string> candidates(std::uint64_t set) const { return candidates(all(set)); }

  // Same, for the names of all keys of a set.
  std::vector<std::string> candidates(const std::vector<std::string>& all) const {
    std::vector<std::string> result;
    const auto add = [&](const std::string& key) {
      const bool found = std::ranges::find(all, key) != all.end();
      if (found) result.push_back(key);
      return found;
    };
    for (const Functionality& functionality : std::views::reverse(functionalities_))
      if (functionality.of_backend.empty())
        add(functionality.name);
      else
        std::ranges::any_of(std::views::reverse(functionality.of_backend), add);
    return result;
  }

  // Returns true if a register value may be a DispatchKeySet.
  bool plausible(std::uint64_t set) const {
    constexpr int kMaxKeys = 24;            // A stack address has more keys, in adjacent bits.
    constexpr std::uint64_t kStack = 0x7F;  // The highest byte of stack and library addresses.
    constexpr unsigned kHighestByte = 40;
    const auto size = static_cast<unsigned>(backends_ + functionalities_.size());
    if (size < kWordBits && (set >> size) != 0) return false;
    if ((set >> kHighestByte) == kStack || std::popcount(set) > kMaxKeys) return false;
    return !candidates(set).empty();
  }

 private:
  struct Functionality {
    std::string name;
    std::vector<std::string> of_backend;  // Empty if all backends share the key.
  };

  static bool has(std::uint64_t set, unsigned bit) { return ((set >> bit) & 1U) != 0; }

  template <typename Visit>
  void each(std::uint64_t set, Visit visit) const {
    for (std::size_t i = functionalities_.size(); i-- > 0;)
      if (has(set, backends_ + static_cast<unsigned>(i))) visit(functionalities_[i]);
  }

  unsigned backends_ = 0;
  std::vector<Functionality> functionalities_;
};

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
    if (colon == std::string_view::npos || line.size() > kMaxTextLength) continue;
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

// Returns true if the record of an op's results says that the call is a repeated one, and none of
// the results belongs to autograd's graph.
bool is_repeated_without_graph(const Json& record) {
  if (!flag_at(record, "repeated") || !value_at(record, "results").is_array()) return false;
  const auto has_graph = [](const Json& value) {
    const Json& gradient = value_at(value_at(value, "tensor"), "requires_grad");
    return !gradient.is_null() && gradient != false;
  };
  return std::ranges::none_of(list_at(record, "results"), [&](const Json& value) {
    return value.is_array() ? std::ranges::any_of(value, has_graph) : has_graph(value);
  });
}

// A validated record of a call.
struct CallRecord {
  std::string op;
  DispatchDetail detail;  // What depends on the record alone.
  std::optional<std::uint64_t> key_set;
  std::optional<Origin> script;  // The line of TorchScript that made the call.
};

}  // namespace

struct DispatchDetails::State {
  explicit State(const Trace& given) : trace(given), names(record(0)), tensors(given) {
    torch_folder = trace.meta.torch_folder;
  }

  Json record(std::uint32_t number) const {
    if (number >= trace.op_records.size() || trace.op_records[number].size() > kMaxRecordLength)
      return {};
    Json parsed = read_json(trace.op_records[number]);
    return parsed.is_object() ? std::move(parsed) : Json();
  }

  std::vector<std::string> name_keys(const Json& object, const char* key) const {
    const auto raw = number_at(object, key);
    return raw && names.known() ? names.all(*raw) : std::vector<std::string>();
  }

  static std::optional<Sizes> sizes(const Json& tensor, const char* key) {
    return list_at(tensor, key).size() > kMaxElements ? std::nullopt : sizes_at(tensor, key);
  }

  // Reads a recorded value, with key names in place of raw key sets and without invalid parts.
  Scalar scalar(const Json& recorded) const {
    if (recorded.is_primitive() && !recorded.is_binary()) return primitive_of(recorded);
    if (const Json* const tensor = member(recorded, "tensor"); tensor != nullptr)
      return TensorFacts{sizes(*tensor, "shape"),           sizes(*tensor, "strides"),
                         text_in(*tensor, "dtype"),         text_in(*tensor, "device"),
                         flag_at(*tensor, "requires_grad"), name_keys(*tensor, "keys"),
                         flag_at(*tensor, "wrapped_number")};
    const std::string type = text_in(recorded, "type");
    return OtherValue{type.empty() ? "unknown" : type, text_in(recorded, "value")};
  }

  static Scalar primitive_of(const Json& recorded) {
    if (recorded.is_string())
      return recorded.get_ref<const std::string&>().substr(0, kMaxTextLength);
    return std::visit([](const auto& value) { return Scalar(value); }, constant_of(recorded));
  }

  Result result(const Json& recorded) const {
    return {scalar(recorded), relation_named(text_at(recorded, "relation")),
            text_in(recorded, "of")};
  }

  // Reads a value or a list of values.
  template <typename ValueOrList, typename Read>
  static ValueOrList value_or_list(const Json& recorded, const Read& read) {
    if (!recorded.is_array()) return read(recorded);
    std::vector<decltype(read(recorded))> list;
    for (const Json& element : recorded) {
      if (list.size() == kMaxElements) break;
      list.push_back(read(element));
    }
    return list;
  }

  std::vector<ResultOrList> results(const Json& record) const {
    std::vector<ResultOrList> all;
    for (const Json& recorded : list_at(record, "results")) {
      if (all.size() == kMaxArguments) break;
      all.push_back(value_or_list<ResultOrList>(
          recorded, [this](const Json& element) { return result(element); }));
    }
    return all;
  }

  std::vector<Argument> arguments(const Json& record) const {
    std::vector<Argument> all;
    for (const Json& argument : list_at(record, "arguments")) {
      if (all.size() == kMaxArguments) break;
      all.push_back({text_in(argument, "name"),
                     value_or_list<Value>(value_at(argument, "value"), [this](const Json& element) {
                       return scalar(element);
                     })});
    }
    return all;
  }

  // Returns null if the record is not of an op call.
  const CallRecord* call(std::uint32_t number) {
    const auto known = calls.find(number);
    if (known != calls.end()) return known->second.op.empty() ? nullptr : &known->second;
    CallRecord& call = calls[number];
    const Json recorded = record(number);
    call.op = text_in(recorded, "op");
    call.detail.schema = text_in(recorded, "schema");
    if (call.op.empty()) return nullptr;
    call.detail.arguments = arguments(recorded);
    call.detail.grad_mode = truth_at(recorded, "grad_mode");
    call.detail.inference_mode = truth_at(recorded, "inference_mode");
    call.detail.dispatch_modes = count_at(recorded, "dispatch_modes");
    const Json& script = object_at(recorded, "script");
    if (Origin origin{{}, {}, text_in(script, "file"), line_at(script, "line"), {}};
        origin.line != 0 && !origin.file.empty())
      call.script = std::move(origin);
    call.key_set = number_at(recorded, "key_set");
    if (call.key_set && names.known()) {
      call.detail.choice.included = name_keys(recorded, "included");
      call.detail.choice.excluded = name_keys(recorded, "excluded");
    }
    return &call;
  }

  const Table& table(std::string_view op) {
    const auto known = tables.find(op);
    if (known != tables.end()) return known->second;
    std::string text;
    if (const auto& all = trace.meta.dispatch_tables)
      if (const auto found = all->find(std::string(op)); found != all->end()) text = found->second;
    return tables.emplace(op, read_table(text)).first->second;
  }

  bool takes_a_stack(std::string_view op, const TableEntry& entry) const {
    const auto& all = trace.meta.boxed_kernels;
    if (!all) return false;
    const auto boxed = all->find(std::string(op));
    return boxed != all->end() &&
           std::ranges::find(boxed->second, entry.where) != boxed->second.end();
  }

  // Adds the dispatcher's choice for a key set. A redispatch uses the first key: fallthrough keys
  // were removed before.
  void choose(std::string_view op, std::uint64_t set, bool redispatch, DispatchChoice& choice) {
    choice.key_set = names.all(set);
    choose_among(op, names.candidates(set), redispatch, choice);
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
        choice.registered_at = registered_at(entry->second.where, torch_folder);
        choice.dispatch = is_python_dispatch_key(key)                  ? "python"
                          : entry->second.reason == "backend fallback" ? "boxed fallback"
                          : takes_a_stack(op, entry->second)           ? "boxed kernel"
                                                                       : "kernel";
      }
      break;
    }
    if (!redispatch) choice.fallthrough = std::move(fallthrough);
  }

  const std::vector<ResultOrList>& results_in(std::uint32_t number) {
    const auto [known, added] = read_results.try_emplace(number);
    if (added) known->second = results(record(number));
    return known->second;
  }

  // Same as is_repeated_without_graph() of that record.
  bool repeats(std::uint32_t results) {
    const auto [known, added] = repeated.try_emplace(results, false);
    if (added) known->second = is_repeated_without_graph(record(results));
    return known->second;
  }

  DispatchDetail call_of(const Step& step, std::vector<Origin>& origins);
  DispatchDetail redispatch_of(const Step& step);
  std::optional<std::uint64_t> key_set_of(const Step& step, const ArgumentCount& counted);
  bool returns_in_memory(std::string_view schema, bool& known) const;
  const std::string& schema_of(std::string_view op);

  const Trace& trace;
  KeyNames names;
  TensorDetails tensors;
  std::string torch_folder;
  std::unordered_map<std::uint32_t, CallRecord> calls;
  std::unordered_map<std::uint32_t, bool> repeated;
  std::unordered_map<std::uint32_t, std::vector<ResultOrList>> read_results;
  std::map<std::string, Table, std::less<>> tables;
  std::map<std::string, std::string, std::less<>> schemas;
};

DispatchDetail DispatchDetails::State::call_of(const Step& step, std::vector<Origin>& origins) {
  // One entry for each record, in the order of first occurrence, or sorted by content if that order
  // is random.
  struct Variant {
    std::uint32_t record = 0;
    std::uint32_t results = 0;
    std::uint64_t calls = 0;
  };
  std::vector<Variant> variants;
  std::map<std::uint32_t, std::uint64_t> calls_by_results;
  std::uint64_t repeated_calls = 0;
  for (const OpCallCount& counted : step.ops) {
    const CallRecord* const found = call(counted.record);
    if (found == nullptr || (!step.op.empty() && found->op != step.op)) continue;
    if (repeats(counted.results)) repeated_calls += counted.calls;
    if (counted.results != 0) calls_by_results[counted.results] += counted.calls;
    const auto same = std::ranges::find(variants, counted.record, &Variant::record);
    if (same == variants.end()) {
      variants.push_back({counted.record, counted.results, counted.calls});
    } else {
      same->calls += counted.calls;
      if (same->results == 0) same->results = counted.results;
    }
  }
  if (variants.empty()) return {};
  const auto describe = [&](const Variant& variant) {
    const CallRecord& record = *call(variant.record);
    DispatchDetail described = record.detail;
    if (record.key_set && names.known())
      choose(record.op, *record.key_set, false, described.choice);
    return described;
  };
  if (step.by_threads && variants.size() > 1)
    std::ranges::stable_sort(variants, {}, [&](const Variant& one) {
      Detail detail;
      detail.dispatch = describe(one);
      return detail_json(detail);
    });
  const Variant& most = *std::ranges::max_element(variants, {}, &Variant::calls);
  DispatchDetail detail = describe(most);
  if (const Json recorded = record(most.results); recorded.contains("results"))
    detail.results = results(recorded);
  if (calls_by_results.size() > 1)
    for (const auto& [number, count] : calls_by_results)
      add_new_tensors(results_in(number), count, detail.new_tensors);
  detail.tensors = tensors.of(most.record);
  if (variants.size() > 1)
    for (const Variant& variant : variants) {
      DispatchDetail described = describe(variant);
      detail.variants.push_back({variant.calls, std::move(described.arguments), std::nullopt,
                                 std::move(described.choice.dispatch_key)});
    }
  std::set<std::pair<std::string, std::uint32_t>> script_lines;
  for (const Variant& variant : variants)
    if (const std::optional<Origin>& script = call(variant.record)->script)
      script_lines.emplace(script->file, script->line);
  for (const auto& [file, line] : script_lines) origins.push_back({{}, {}, file, line, {}});
  detail.repeated_calls = repeated_calls;
  detail.variants_left_out = step.ops_left_out;
  return detail;
}

// Returns an op's schema, taken from any record of its calls.
const std::string& DispatchDetails::State::schema_of(std::string_view op) {
  if (schemas.empty()) {
    for (std::uint32_t i = 1; i < trace.op_records.size(); ++i)
      if (const CallRecord* const record = call(i))
        schemas.emplace(record->op, record->detail.schema);
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

DispatchDetails::DispatchDetails(const Trace& trace) : state_(std::make_unique<State>(trace)) {}
DispatchDetails::~DispatchDetails() = default;

DispatchDetail DispatchDetails::of(const Step& step, std::vector<Origin>& origins) const {
  DispatchDetail detail =
      step.redispatch ? state_->redispatch_of(step) : state_->call_of(step, origins);
  if (step.unboxed && detail.choice.dispatch == "boxed kernel") detail.choice.dispatch = "kernel";
  return detail;
}

DispatchDetail DispatchDetails::recorded(std::uint32_t record) const {
  const Json read = state_->record(record);
  DispatchDetail detail;
  detail.arguments = state_->arguments(read);
  detail.results = state_->results(read);
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

std::string DispatchDetails::node_name(std::uint32_t record) const {
  return text_in(state_->record(record), "node");
}

std::string DispatchDetails::op_name(std::uint32_t record) const {
  const CallRecord* const call = state_->call(record);
  return call == nullptr ? std::string() : call->op;
}

std::optional<std::uint64_t> DispatchDetails::only_key_set(const ArgumentCount& counted) const {
  const bool first = state_->names.plausible(counted.first);
  if (first == state_->names.plausible(counted.second)) return std::nullopt;
  return first ? counted.first : counted.second;
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

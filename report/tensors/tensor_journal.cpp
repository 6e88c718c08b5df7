#include "report/tensors/tensor_journal.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "platform/text/json_reader.h"
#include "report/model/json_fields.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kBeginning = R"({"tensors":[)";
constexpr int kMaxCallDepth = 1000;  // Of calls in calls.

std::int64_t signed_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

bool flag_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && *found == true;
}

// Returns null for anything but a list of numbers.
Json numbers_at(const Json& object, const char* key) {
  const Json& list = list_at(object, key);
  const bool known = object.contains(key) && object[key].is_array() &&
                     std::ranges::all_of(list, [](const Json& one) { return one.is_number(); });
  return known ? list : Json();
}

// Reads the entries in their order.
class JournalReader {
 public:
  void add(const Json& entry) {
    if (!entry.is_object()) return;
    if (entry.contains("variable"))
      add_variable(entry);
    else if (entry.contains("op") || entry.contains("node"))
      add_call(entry);
    else if (entry.contains("path"))
      files_[count_at(entry, "file")] = text_at(entry, "path");
    else if (entry.contains("storage"))
      begin_storage(entry);
    else if (entry.contains("resized"))
      resize(entry);
    else if (entry.contains("ended"))
      end_storage(entry);
    else if (entry.contains("saved"))
      save(entry);
  }

  TensorJournal take() {
    find_peaks();
    return std::move(journal_);
  }

  void set_full() { journal_.full = true; }

 private:
  std::string file_at(const Json& entry) const {
    const auto found = files_.find(count_at(entry, "file"));
    return found == files_.end() ? std::string() : found->second;
  }

  void add_call(const Json& entry) {
    JournalCall call;
    call.number = count_at(entry, "call");
    call.is_node = entry.contains("node");
    call.name = text_at(entry, call.is_node ? "node" : "op");
    call.outer = count_at(entry, "in");
    call.record = static_cast<std::uint32_t>(count_at(entry, "record"));
    call.line = {file_at(entry), count_at(entry, "line")};
    for (const Json& one : list_at(entry, "arguments")) call.arguments.push_back(tensor_of(one));
    for (const Json& one : list_at(entry, "results")) call.results.push_back(tensor_of(one));
    // Numbers increase on the way in, so that a crafted journal has no loops.
    if (call.number == 0 || call.outer >= call.number) return;
    if (!journal_.places.emplace(call.number, journal_.calls.size()).second) return;
    if (entry.contains("sequence"))
      call.node = {count_at(entry, "sequence"), count_at(entry, "thread")};
    if (call.is_node && call.node) journal_.nodes.emplace(*call.node, call.name);
    if (call.outer != 0) journal_.inner.emplace(call.outer, journal_.calls.size());
    last_ = call.number;
    journal_.calls.push_back(std::move(call));
  }

  void add_variable(const Json& entry) {
    JournalVariable variable;
    variable.name = text_at(entry, "variable");
    variable.function = text_at(entry, "function");
    variable.file = file_at(entry);
    variable.after = last_;
    variable.identity = count_at(entry, "tensor");
    variable.bound = variable.identity != 0;
    if (variable.bound) variable.tensor = tensor_of(entry);
    journal_.variables.push_back(std::move(variable));
  }

  void begin_storage(const Json& entry) {
    JournalStorage storage;
    storage.number = count_at(entry, "storage");
    storage.bytes = storage.largest = count_at(entry, "bytes");
    storage.device = text_at(entry, "device");
    storage.born = count_at(entry, "call");
    storage.existed = flag_at(entry, "existed");
    const std::uint64_t number = storage.number;
    const std::uint64_t bytes = storage.bytes;
    const std::uint64_t call = storage.born;
    if (journal_.storages.emplace(number, std::move(storage)).second)
      changes_.push_back({number, bytes, call});
  }

  void resize(const Json& entry) {
    const auto found = journal_.storages.find(count_at(entry, "resized"));
    if (found == journal_.storages.end() || found->second.ended) return;
    JournalStorage& storage = found->second;
    storage.bytes = count_at(entry, "bytes");
    storage.largest = std::max(storage.largest, storage.bytes);
    changes_.push_back({storage.number, storage.bytes, count_at(entry, "call")});
  }

  void save(const Json& entry) {
    const auto found = journal_.storages.find(count_at(entry, "saved"));
    if (found == journal_.storages.end()) return;
    std::vector<std::uint64_t>& saved = found->second.saved;
    if (const std::uint64_t call = count_at(entry, "call");
        std::ranges::find(saved, call) == saved.end())
      saved.push_back(call);
  }

  void end_storage(const Json& entry) {
    const auto found = journal_.storages.find(count_at(entry, "ended"));
    if (found == journal_.storages.end() || found->second.ended) return;
    JournalStorage& storage = found->second;
    storage.ended = true;
    storage.ended_during = count_at(entry, "during");
    storage.ended_before = count_at(entry, "before");
    changes_.push_back({storage.number, 0, 0});
  }

  // The size that a storage has from now on.
  struct Change {
    std::uint64_t storage = 0;
    std::uint64_t bytes = 0;
    std::uint64_t call = 0;
  };

  void find_peaks() {
    std::unordered_map<std::uint64_t, std::uint64_t> sizes;
    std::map<std::string, std::uint64_t> sums;
    std::map<std::string, std::size_t> last;  // The change that made the peak.
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      const std::string& device = journal_.storages[changes_[i].storage].device;
      if (device == "meta") continue;  // Such tensors have no memory.
      std::uint64_t& size = sizes[changes_[i].storage];
      std::uint64_t& sum = sums[device];
      sum += changes_[i].bytes - size;
      size = changes_[i].bytes;
      PeakMemory& peak = journal_.peaks[device];
      if (sum <= peak.bytes) continue;
      peak.bytes = sum;
      peak.call = changes_[i].call;
      last[device] = i;
    }
    for (const auto& [device, end] : last) {
      sizes.clear();
      for (std::size_t i = 0; i <= end; ++i)
        if (journal_.storages[changes_[i].storage].device == device)
          sizes[changes_[i].storage] = changes_[i].bytes;
      std::vector<std::uint64_t>& storages = journal_.peaks[device].storages;
      for (const auto& [number, bytes] : sizes)
        if (bytes != 0) storages.push_back(number);
      std::ranges::sort(storages, [&](std::uint64_t one, std::uint64_t other) {
        return std::pair(sizes[other], one) < std::pair(sizes[one], other);
      });
    }
  }

  TensorJournal journal_;
  std::vector<Change> changes_;
  std::map<std::uint64_t, std::string> files_;
  std::uint64_t last_ = 0;
};

// Returns true if the strides are those of the same layout: strides of dimensions with one element
// have no meaning.
bool same_layout(const JournalTensor& one, const JournalTensor& other) {
  if (!one.strides.is_array() || !other.strides.is_array() ||
      one.strides.size() != other.strides.size() || !one.shape.is_array() ||
      one.shape.size() != one.strides.size())
    return true;
  for (std::size_t i = 0; i < one.strides.size(); ++i)
    if (one.shape[i] != 1 && one.strides[i] != other.strides[i]) return false;
  return true;
}

std::string numbers_text(const Json& numbers, const char* separator) {
  std::string text;
  for (const Json& one : numbers)
    text += fmt::format("{}{}", text.empty() ? "" : separator, one.dump());
  return text;
}

std::string reason_of_copy(const JournalTensor& to, const JournalTensor& from) {
  if (to.device != from.device) return fmt::format("device: {} to {}", from.device, to.device);
  if (to.dtype != from.dtype) return fmt::format("dtype: {} to {}", from.dtype, to.dtype);
  if (to.shape != from.shape) return "shape: the source is expanded";
  if (!same_layout(to, from))
    return fmt::format("layout: strides {} to {}", numbers_text(from.strides, ","),
                       numbers_text(to.strides, ","));
  return "requested";
}

// Ops that copy the data of their second tensor to the first.
bool copies_second(std::string_view name) {
  return name.starts_with("aten::copy_") || name == "aten::copy" || name == "aten::_copy_from" ||
         name == "aten::_copy_from_and_resize";
}

// Ops whose new result has the data of the first tensor, if no op inside them copies it.
bool copies_first(std::string_view name) {
  constexpr std::array<std::string_view, 8> kNames = {
      "aten::clone",   "aten::contiguous", "aten::_to_copy",    "aten::to",
      "aten::reshape", "aten::to_mkldnn",  "aten::_lazy_clone", "aten::lift_fresh_copy"};
  const std::string_view base = name.substr(0, name.find('.'));
  return std::ranges::find(kNames, base) != kNames.end();
}

}  // namespace

const JournalCall* TensorJournal::call(std::uint64_t number) const {
  const auto found = places.find(number);
  return found == places.end() ? nullptr : &calls[found->second];
}

std::string TensorJournal::node_made_by(const JournalCall& call) const {
  const auto found = call.node ? nodes.find(*call.node) : nodes.end();
  return found == nodes.end() ? std::string() : found->second;
}

const JournalCall* TensorJournal::outermost(std::uint64_t number) const {
  const JournalCall* found = call(number);
  while (found != nullptr && found->outer != 0) {
    const JournalCall* const outer = call(found->outer);
    if (outer == nullptr) break;
    found = outer;
  }
  return found;
}

std::vector<const JournalCall*> TensorJournal::inside(std::uint64_t number) const {
  std::vector<const JournalCall*> found;
  for (auto [at, end] = inner.equal_range(number); at != end; ++at)
    found.push_back(&calls[at->second]);
  std::ranges::sort(found, {}, &JournalCall::number);
  return found;
}

bool has_tensor_journal(const Trace& trace) {
  return std::ranges::any_of(
      trace.op_records, [](const std::string& record) { return record.starts_with(kBeginning); });
}

std::optional<TensorJournal> read_tensor_journal(const Trace& trace) {
  if (!has_tensor_journal(trace)) return std::nullopt;
  JournalReader reader;
  for (const std::string& record : trace.op_records) {
    if (!record.starts_with(kBeginning)) continue;
    const Json chunk = read_json(record);
    if (!chunk.is_object()) continue;
    for (const Json& entry : list_at(chunk, "tensors")) reader.add(entry);
    if (chunk.contains("full")) reader.set_full();
  }
  return reader.take();
}

std::vector<TensorCopy> copies_of(const TensorJournal& journal, const JournalCall& call) {
  const auto copy = [&](const JournalTensor& from, const JournalTensor& to) {
    return from.storage == 0 || to.storage == 0 || from.storage == to.storage
               ? std::vector<TensorCopy>()
               : std::vector{
                     TensorCopy{from.storage, to.storage, call.number, reason_of_copy(to, from)}};
  };
  if (call.arguments.size() >= 2 && copies_second(call.name))
    return copy(call.arguments[1], call.arguments[0]);
  if (!call.arguments.empty() && call.results.size() == 1 && copies_first(call.name) &&
      call.results[0].relation == "fresh" && !journal.inner.contains(call.number))
    return copy(call.arguments[0], call.results[0]);
  return {};
}

std::string tensor_text(const JournalTensor& tensor) {
  std::string text = !tensor.shape.is_array() ? "?"
                     : tensor.shape.empty()   ? "scalar"
                                              : numbers_text(tensor.shape, "×");
  for (const std::string& part : {tensor.dtype, tensor.device})
    if (!part.empty()) text += " " + part;
  if (tensor.storage != 0) text += fmt::format(", storage #{} +{}", tensor.storage, tensor.offset);
  return text;
}

JournalTensor tensor_of(const Json& entry) {
  JournalTensor tensor;
  tensor.name = text_at(entry, "name");
  tensor.shape = numbers_at(entry, "shape");
  tensor.strides = numbers_at(entry, "strides");
  tensor.dtype = text_at(entry, "dtype");
  tensor.device = text_at(entry, "device");
  tensor.version = count_at(entry, "version");
  tensor.storage = count_at(entry, "storage");
  tensor.offset = signed_at(entry, "offset");
  tensor.requires_grad = flag_at(entry, "requires_grad");
  tensor.written = flag_at(entry, "written");
  tensor.relation = text_at(entry, "relation");
  tensor.of = text_at(entry, "of");
  return tensor;
}

Json tensor_json(const JournalTensor& tensor) {
  Json object = {{"shape", tensor.shape},
                 {"strides", tensor.strides},
                 {"dtype", tensor.dtype},
                 {"device", tensor.device},
                 {"requires_grad", tensor.requires_grad},
                 {"version", tensor.version},
                 {"storage", tensor.storage == 0 ? Json() : Json(tensor.storage)},
                 {"offset", tensor.offset}};
  if (!tensor.name.empty()) object["name"] = tensor.name;
  if (tensor.written) object["written"] = true;
  if (!tensor.relation.empty()) object["relation"] = tensor.relation;
  if (!tensor.of.empty()) object["of"] = tensor.of;
  return object;
}

}  // namespace optrace

#include <algorithm>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "platform/text/json_fields.h"
#include "platform/text/json_reader.h"
#include "report/json/read_detail_json.h"
#include "report/tensors/tensor_log.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kBeginning = R"({"tensors":[)";

// Reads the entries in their order.
class LogReader {
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

  TensorLog take() {
    find_peaks();
    return std::move(log_);
  }

  void set_full() { log_.full = true; }

 private:
  std::string file_at(const Json& entry) const {
    const auto found = files_.find(count_at(entry, "file"));
    return found == files_.end() ? std::string() : found->second;
  }

  void add_call(const Json& entry) {
    LoggedCall call;
    call.number = count_at(entry, "call");
    call.is_node = entry.contains("node");
    call.name = text_at(entry, call.is_node ? "node" : "op");
    call.outer = count_at(entry, "in");
    call.record = static_cast<std::uint32_t>(count_at(entry, "record"));
    call.line = {file_at(entry), count_at(entry, "line")};
    for (const Json& one : list_at(entry, "arguments"))
      call.arguments.push_back(stored_tensor_of(one));
    for (const Json& one : list_at(entry, "results")) call.results.push_back(stored_tensor_of(one));
    // Numbers increase on the way in, so that a crafted log has no loops.
    if (call.number == 0 || call.outer >= call.number) return;
    if (!log_.places.emplace(call.number, log_.calls.size()).second) return;
    if (entry.contains("sequence"))
      call.node = {count_at(entry, "sequence"), count_at(entry, "thread")};
    if (call.is_node && call.node) log_.nodes.emplace(*call.node, call.name);
    if (call.outer != 0) log_.inner.emplace(call.outer, log_.calls.size());
    last_ = call.number;
    log_.calls.push_back(std::move(call));
  }

  void add_variable(const Json& entry) {
    LoggedVariable variable;
    variable.name = text_at(entry, "variable");
    variable.function = text_at(entry, "function");
    variable.file = file_at(entry);
    variable.after = last_;
    variable.identity = count_at(entry, "tensor");
    variable.bound = variable.identity != 0;
    if (variable.bound) variable.tensor = stored_tensor_of(entry);
    log_.variables.push_back(std::move(variable));
  }

  void begin_storage(const Json& entry) {
    LoggedStorage storage;
    storage.number = count_at(entry, "storage");
    storage.bytes = storage.largest = count_at(entry, "bytes");
    storage.device = text_at(entry, "device");
    storage.born = count_at(entry, "call");
    storage.existed = flag_at(entry, "existed");
    const std::uint64_t number = storage.number;
    const std::uint64_t bytes = storage.bytes;
    const std::uint64_t call = storage.born;
    if (log_.storages.emplace(number, std::move(storage)).second)
      changes_.push_back({number, bytes, call});
  }

  void resize(const Json& entry) {
    const auto found = log_.storages.find(count_at(entry, "resized"));
    if (found == log_.storages.end() || found->second.ended) return;
    LoggedStorage& storage = found->second;
    storage.bytes = count_at(entry, "bytes");
    storage.largest = std::max(storage.largest, storage.bytes);
    changes_.push_back({storage.number, storage.bytes, count_at(entry, "call")});
  }

  void save(const Json& entry) {
    const auto found = log_.storages.find(count_at(entry, "saved"));
    if (found == log_.storages.end()) return;
    std::vector<std::uint64_t>& saved = found->second.saved;
    if (const std::uint64_t call = count_at(entry, "call");
        std::ranges::find(saved, call) == saved.end())
      saved.push_back(call);
  }

  void end_storage(const Json& entry) {
    const auto found = log_.storages.find(count_at(entry, "ended"));
    if (found == log_.storages.end() || found->second.ended) return;
    LoggedStorage& storage = found->second;
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
      const std::string& device = log_.storages[changes_[i].storage].device;
      if (device == "meta") continue;  // Such tensors have no memory.
      std::uint64_t& size = sizes[changes_[i].storage];
      std::uint64_t& sum = sums[device];
      sum += changes_[i].bytes - size;
      size = changes_[i].bytes;
      PeakMemory& peak = log_.peaks[device];
      if (sum <= peak.bytes) continue;
      peak.bytes = sum;
      peak.call = changes_[i].call;
      last[device] = i;
    }
    for (const auto& [device, end] : last) {
      sizes.clear();
      for (std::size_t i = 0; i <= end; ++i)
        if (log_.storages[changes_[i].storage].device == device)
          sizes[changes_[i].storage] = changes_[i].bytes;
      std::vector<std::uint64_t>& storages = log_.peaks[device].storages;
      for (const auto& [number, bytes] : sizes)
        if (bytes != 0) storages.push_back(number);
      std::ranges::sort(storages, [&](std::uint64_t one, std::uint64_t other) {
        return std::pair(sizes[other], one) < std::pair(sizes[one], other);
      });
    }
  }

  TensorLog log_;
  std::vector<Change> changes_;
  std::map<std::uint64_t, std::string> files_;
  std::uint64_t last_ = 0;
};

}  // namespace

bool has_tensor_log(const Trace& trace) {
  return std::ranges::any_of(
      trace.op_records, [](const std::string& record) { return record.starts_with(kBeginning); });
}

std::optional<TensorLog> read_tensor_log(const Trace& trace) {
  if (!has_tensor_log(trace)) return std::nullopt;
  LogReader reader;
  for (const std::string& record : trace.op_records) {
    if (!record.starts_with(kBeginning)) continue;
    const Json chunk = read_json(record);
    if (!chunk.is_object()) continue;
    for (const Json& entry : list_at(chunk, "tensors")) reader.add(entry);
    if (chunk.contains("full")) reader.set_full();
  }
  return reader.take();
}

}  // namespace optrace

#include "report/tensors/tensor_detail.h"

#include <utility>

#include <fmt/core.h>

namespace optrace {
namespace {

constexpr std::size_t kMaxLines = 12;  // Of one frame.

std::string tensor_line(const StoredTensor& tensor) {
  std::string text =
      fmt::format("{}: {}", tensor.name.empty() ? "result" : tensor.name, tensor_text(tensor));
  if (tensor.written) text += ", written in place";
  if (tensor.relation == ResultRelation::fresh) text += ", new";
  if (tensor.relation == ResultRelation::alias) text += fmt::format(", {} itself", tensor.of);
  if (tensor.relation == ResultRelation::view) text += fmt::format(", view of {}", tensor.of);
  if (tensor.new_bytes.value_or(0) != 0) text += fmt::format(" ({} bytes)", *tensor.new_bytes);
  return text;
}

}  // namespace

TensorDetails::TensorDetails(const Trace& trace) : log_(read_tensor_log(trace)) {
  if (!log_) return;
  for (std::size_t i = 0; i < log_->calls.size(); ++i)
    if (const std::uint32_t record = log_->calls[i].record; record != 0) first_.emplace(record, i);
}

std::optional<StoredTensors> TensorDetails::of(std::uint32_t record) const {
  const auto found = first_.find(record);
  if (!log_ || found == first_.end()) return std::nullopt;
  const LoggedCall& call = log_->calls[found->second];
  if (call.arguments.empty() && call.results.empty()) return std::nullopt;
  StoredTensors tensors{call.arguments, call.results, {}};
  for (StoredTensor& result : tensors.results)
    if (result.relation == ResultRelation::fresh)
      if (const auto storage = log_->storages.find(result.storage); storage != log_->storages.end())
        result.new_bytes = storage->second.bytes;
  for (TensorCopy& copy : copies_of(*log_, call))
    tensors.copies.push_back({copy.from, copy.to, std::move(copy.reason)});
  return tensors;
}

std::vector<std::string> tensor_lines(const StoredTensors& tensors) {
  std::vector<std::string> lines;
  for (const std::vector<StoredTensor>* const list : {&tensors.arguments, &tensors.results})
    for (const StoredTensor& tensor : *list) lines.push_back(tensor_line(tensor));
  for (const StorageCopy& copy : tensors.copies)
    lines.push_back(fmt::format("copies storage #{} to #{}, {}", copy.from, copy.to, copy.reason));
  if (lines.size() > kMaxLines) {
    const std::size_t more = lines.size() - kMaxLines;
    lines.resize(kMaxLines);
    lines.push_back(fmt::format("and {} more", more));
  }
  return lines;
}

}  // namespace optrace

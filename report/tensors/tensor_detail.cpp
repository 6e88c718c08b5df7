#include "report/tensors/tensor_detail.h"

#include <fmt/format.h>

#include "report/model/json_fields.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxLines = 12;  // Of one frame.

std::string tensor_line(const JournalTensor& tensor) {
  std::string text =
      fmt::format("{}: {}", tensor.name.empty() ? "result" : tensor.name, tensor_text(tensor));
  if (tensor.written) text += ", written in place";
  if (tensor.relation == "fresh") text += ", new";
  if (tensor.relation == "alias") text += fmt::format(", {} itself", tensor.of);
  if (tensor.relation == "view") text += fmt::format(", view of {}", tensor.of);
  return text;
}

}  // namespace

TensorDetails::TensorDetails(const Trace& trace) : journal_(read_tensor_journal(trace)) {
  if (!journal_) return;
  for (std::size_t i = 0; i < journal_->calls.size(); ++i)
    if (const std::uint32_t record = journal_->calls[i].record; record != 0)
      first_.emplace(record, i);
}

Json TensorDetails::of(std::uint32_t record) const {
  const auto found = first_.find(record);
  if (!journal_ || found == first_.end()) return {};
  const JournalCall& call = journal_->calls[found->second];
  if (call.arguments.empty() && call.results.empty()) return {};
  Json detail = {{"arguments", Json::array()}, {"results", Json::array()}};
  for (const JournalTensor& one : call.arguments) detail["arguments"].push_back(tensor_json(one));
  for (const JournalTensor& one : call.results) {
    Json result = tensor_json(one);
    if (one.relation == "fresh")
      if (const auto storage = journal_->storages.find(one.storage);
          storage != journal_->storages.end())
        result["bytes"] = storage->second.bytes;
    detail["results"].push_back(std::move(result));
  }
  for (const TensorCopy& copy : copies_of(*journal_, call))
    detail["copies"].push_back({{"from", copy.from}, {"to", copy.to}, {"reason", copy.reason}});
  return detail;
}

std::vector<std::string> tensor_lines(const Json& detail) {
  std::vector<std::string> lines;
  if (!detail.is_object()) return lines;
  const Json& tensors = object_at(detail, "tensors");
  for (const char* const key : {"arguments", "results"}) {
    for (const Json& one : list_at(tensors, key)) {
      std::string line = tensor_line(tensor_of(one));
      if (const std::uint64_t bytes = count_at(one, "bytes"); bytes != 0)
        line += fmt::format(" ({} bytes)", bytes);
      lines.push_back(std::move(line));
    }
  }
  for (const Json& copy : list_at(tensors, "copies"))
    lines.push_back(fmt::format("copies storage #{} to #{}, {}", count_at(copy, "from"),
                                count_at(copy, "to"), text_at(copy, "reason")));
  if (lines.size() > kMaxLines) {
    const std::size_t more = lines.size() - kMaxLines;
    lines.resize(kMaxLines);
    lines.push_back(fmt::format("and {} more", more));
  }
  return lines;
}

}  // namespace optrace

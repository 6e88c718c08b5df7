#include <algorithm>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "platform/text/joined.h"
#include "platform/text/printable_text.h"
#include "present/readable_numbers.h"
#include "report/tensors/tensors_output.h"

namespace optrace {
namespace {

constexpr std::size_t kMaxRows = 40;    // Of one table.
constexpr std::size_t kMaxHolders = 5;  // Storages of a peak.

std::string program_place(const ProgramLine& line) {
  if (line.line == 0) return "(no line)";
  return fmt::format("{}:{}", std::filesystem::path(line.file).filename().string(), line.line);
}

// Returns "aten::clone at train.py:3" for an outermost call, or its op alone.
std::string call_text(const LoggedCall* call) {
  if (call == nullptr) return "outside of ops";
  if (call->line.line == 0) return call->name;
  return fmt::format("{} at {}", call->name, program_place(call->line));
}

std::string copy_text(const ReasonedCopy& copy) {
  std::string through;
  if (copy.through.size() > 1)
    through =
        fmt::format(" ({})", joined(std::span(copy.through.begin() + 1, copy.through.end()), ", "));
  return fmt::format("{}{}, {}", call_text(copy.asked), through, copy.copy.reason);
}

class TensorsText {
 public:
  TensorsText(const TensorsAnswer& answer, const TerminalStyle& style)
      : answer_(answer), log_(answer.log), style_(style) {}

  std::string write() {
    if (answer_.process) {
      title(fmt::format("process {}{}", *answer_.process,
                        answer_.rank ? fmt::format(", rank {}", *answer_.rank) : ""));
    }
    if (answer_.name.empty()) {
      variables();
      copies();
      storages();
      peaks();
    } else {
      for (const TensorHistory& history : answer_.histories) describe(history);
    }
    if (log_.full)
      line(
          "The record of tensors was full before the end: what came later is missing. Give it "
          "more room with --target-memory.");
    return std::move(text_);
  }

 private:
  void line(std::string_view content) { text_ += fmt::format("{}\n", content); }

  void title(std::string_view name) {
    if (!text_.empty()) text_ += '\n';
    line(style_.paint(name, kBold));
  }
  void field(std::string_view name, std::string_view content) {
    line(fmt::format("  {:<9} {}", name, printable(content)));
  }

  std::string size_text(const TensorHistory& history) const {
    const std::uint64_t storage = history.variable->tensor.storage;
    const auto found = log_.storages.find(storage);
    if (found == log_.storages.end()) return "unknown";
    return fmt::format("storage #{}, {} on {}, {}", storage, readable_size(found->second.bytes),
                       found->second.device, end_text(found->second));
  }

  std::string end_text(const LoggedStorage& storage) const {
    if (!storage.ended || (storage.ended_during == 0 && storage.ended_before == 0))
      return "alive at the end";
    if (storage.ended_during != 0)
      return fmt::format("freed in {}", call_text(log_.outermost(storage.ended_during)));
    const LoggedCall* const next = log_.outermost(storage.ended_before);
    return next == nullptr ? "freed after the last op"
                           : fmt::format("freed before {}", call_text(next));
  }

  std::string birth_text(const LoggedStorage& storage) const {
    const LoggedCall* const call = log_.outermost(storage.born);
    if (storage.existed)
      return call == nullptr ? "made outside of ops"
                             : fmt::format("made outside of ops before {}", call_text(call));
    return fmt::format("born in {}", call_text(call));
  }

  static std::string shared_text(const TensorHistory& history) {
    std::string text;
    for (const SharedMemory& one : history.shared) {
      if (!text.empty()) text += ", ";
      text += full_name(*one.variable);
      text += one.same_tensor
                  ? " (the same tensor)"
                  : fmt::format(" (the same storage, from +{})", one.variable->tensor.offset);
    }
    return text.empty() ? "no other variable" : text;
  }

  void describe(const TensorHistory& history) {
    const LoggedVariable& variable = *history.variable;
    const StoredTensor& tensor = variable.tensor;
    title(printable(fmt::format("{}: {}", full_name(variable), tensor_text(tensor))));
    if (tensor.storage == 0) {
      field("memory", "it has no storage, as tensors that are not strided");
      return;
    }
    field("memory", size_text(history));
    field("shared by", shared_text(history));
    if (history.copied_from.empty())
      field("a copy", "no: its data was not copied from another storage");
    else
      for (const ReasonedCopy& copy : history.copied_from)
        field("a copy", fmt::format("yes, of storage #{}: by {}", copy.copy.from, copy_text(copy)));
    for (const ReasonedCopy& copy : history.copied_to)
      field("copied", fmt::format("to storage #{} by {}", copy.copy.to, copy_text(copy)));
    saved(tensor.storage);
    field("autograd",
          fmt::format("requires_grad {}, version {}", tensor.requires_grad, tensor.version));
    if (!history.at_end) field("until", "the variable no longer exists at the end");
    steps(history);
  }

  void saved(std::uint64_t storage) {
    const auto found = log_.storages.find(storage);
    if (found == log_.storages.end()) return;
    for (const std::uint64_t number : found->second.saved) {
      const LoggedCall* const call = log_.call(number);
      if (call == nullptr) continue;
      const LoggedCall* const outermost = log_.outermost(number);
      const std::string node = log_.node_made_by(*call);
      field("saved",
            fmt::format("for {}, by {}", node.empty() ? "the backward of " + call->name : node,
                        call_text(outermost)));
    }
  }

  void steps(const TensorHistory& history) {
    const std::size_t skipped = history.steps.size() - std::min(history.steps.size(), kMaxRows);
    if (skipped != 0) line(fmt::format("  ... {} earlier calls", skipped));
    std::size_t place = 0;
    std::size_t op = 0;
    for (const HistoryStep& step : history.steps) {
      place = std::max(place, columns(program_place(step.call->line)));
      op = std::max(op, columns(step.call->name));
    }
    for (std::size_t i = skipped; i < history.steps.size(); ++i) {
      const HistoryStep& step = history.steps[i];
      line(fmt::format("  {}  {}  {}", padded(printable(program_place(step.call->line)), place),
                       padded(printable(step.call->name), op), printable(effect_text(step))));
    }
  }

  static std::string effect_text(const HistoryStep& step) {
    std::vector<std::string> parts;
    for (const StoredTensor& argument : step.call->arguments)
      if (argument.written)
        parts.push_back(fmt::format("writes to {}, storage #{}", argument.name, argument.storage));
    for (const StoredTensor& result : step.call->results) {
      if (result.relation == ResultRelation::alias) {
        const bool written = std::ranges::any_of(step.call->arguments, &StoredTensor::written);
        if (!written) parts.push_back(fmt::format("returns {} itself", result.of));
      } else if (result.relation == ResultRelation::view) {
        parts.push_back(fmt::format("view of {}: {}", result.of, tensor_text(result)));
      } else {
        parts.push_back(fmt::format("{}: {}",
                                    result.relation == ResultRelation::fresh ? "new" : "result",
                                    tensor_text(result)));
      }
    }
    for (const ReasonedCopy& copy : step.copies)
      parts.push_back(fmt::format("copied from storage #{}, {}", copy.copy.from, copy.copy.reason));
    return joined(parts, "; ");
  }

  void variables() {
    title("variables");
    if (answer_.histories.empty()) line("  none that refers to a tensor was seen");
    std::size_t width = 0;
    for (const TensorHistory& history : answer_.histories)
      width = std::max(width, columns(full_name(*history.variable)));
    rows(answer_.histories, [&](const TensorHistory& history) {
      std::string more;
      if (!history.shared.empty()) more += "; shared with " + shared_text(history);
      if (!history.copied_from.empty())
        more += fmt::format("; a copy of storage #{}", history.copied_from.back().copy.from);
      return fmt::format("{}  {}{}", padded(full_name(*history.variable), width),
                         tensor_text(history.variable->tensor), more);
    });
  }

  void copies() {
    const std::vector<ReasonedCopy> all = all_copies(log_);
    title("copies");
    if (all.empty()) line("  none");
    rows(all, [](const ReasonedCopy& copy) {
      return fmt::format("#{} to #{}  by {}", copy.copy.from, copy.copy.to, copy_text(copy));
    });
  }

  void storages() {
    title("storages");
    const auto names = names_of_storages(log_);
    rows(log_.storages, [&](const auto& entry) {
      const LoggedStorage& storage = entry.second;
      const auto named = names.find(storage.number);
      return fmt::format("#{}  {}  {}  {}, {}{}", storage.number, readable_size(storage.largest),
                         storage.device, birth_text(storage), end_text(storage),
                         named == names.end() ? std::string()
                                              : fmt::format("  [{}]", joined(named->second, ", ")));
    });
  }

  void peaks() {
    const auto names = names_of_storages(log_);
    for (const auto& [device, peak] : log_.peaks) {
      title(printable(fmt::format("peak on {}: {}", device, readable_size(peak.bytes))));
      line(printable(fmt::format("  reached in {}", call_text(log_.outermost(peak.call)))));
      for (std::size_t i = 0; i < peak.storages.size() && i < kMaxHolders; ++i) {
        const LoggedStorage& storage = log_.storages.at(peak.storages[i]);
        const auto named = names.find(storage.number);
        line(printable(fmt::format(
            "  #{}  {}  {}{}", storage.number, readable_size(storage.largest), birth_text(storage),
            named == names.end() ? std::string()
                                 : fmt::format("  [{}]", joined(named->second, ", ")))));
      }
      if (peak.storages.size() > kMaxHolders)
        line(fmt::format("  and {} others", peak.storages.size() - kMaxHolders));
    }
  }

  template <typename List, typename RowOf>
  void rows(const List& list, const RowOf& row_of) {
    std::size_t count = 0;
    for (const auto& one : list) {
      if (count++ == kMaxRows) {
        line(fmt::format("  and {} more, see --format json", list.size() - kMaxRows));
        return;
      }
      line("  " + printable(row_of(one)));
    }
  }

  const TensorsAnswer& answer_;
  const TensorLog& log_;
  const TerminalStyle& style_;
  std::string text_;
};

}  // namespace

std::string to_text(const TensorsAnswer& answer, const TerminalStyle& style) {
  return TensorsText(answer, style).write();
}

}  // namespace optrace

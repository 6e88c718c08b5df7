#include "report/job/merged_contents.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <tuple>

namespace optrace {

void MergedContents::add(const Trace& trace) {
  std::vector<std::uint32_t> modules;
  for (const TraceModule& module : trace.modules) {
    const auto [at, added] = module_numbers_.try_emplace(
        std::pair(module.build_id, module.build_id.empty() ? module.path : std::string()),
        static_cast<std::uint32_t>(modules_.size()));
    if (added) modules_.push_back(module);
    TraceModule& known = modules_[at->second];
    known.path = std::min(known.path, module.path);
    known.debug_info = known.debug_info || module.debug_info;
    modules.push_back(at->second);
  }
  functions_.start_again();
  function_numbers_.clear();
  for (const TraceFunction& function : trace.functions) {
    sought_ = function;
    sought_.tail_calls.clear();
    sought_.module = at_or_none(modules, function.module);
    // Code outside every file is at another address in each process.
    if (function.module == kNone && function.symbol.empty()) sought_.address = 0;
    const std::uint32_t number = functions_.add(sought_);
    TraceFunction& known = functions_[number];
    known.probed = known.probed && function.probed;  // Otherwise calls may be missing.
    known.enters_itself = known.enters_itself || function.enters_itself;
    known.jumps_indirectly = known.jumps_indirectly || function.jumps_indirectly;
    function_numbers_.push_back(number);
  }
  for (std::size_t i = 0; i < trace.functions.size(); ++i) {
    std::vector<std::uint32_t>& known = functions_[function_numbers_[i]].tail_calls;
    for (std::size_t at = 0; at < trace.functions[i].tail_calls.size(); ++at) {
      const std::uint32_t target = function_numbers_[trace.functions[i].tail_calls[at]];
      if (at < known.size() && known[at] == target) continue;
      if (std::ranges::find(known, target) == known.end()) known.push_back(target);
    }
  }
  python_functions_.start_again();
  python_numbers_.clear();
  for (const PythonFunction& function : trace.python_functions)
    python_numbers_.push_back(python_functions_.add(function));
  records_.start_again();
  record_numbers_.assign(trace.op_records.size(), kNone);
  if (!record_numbers_.empty()) record_numbers_[0] = 0;
}

std::uint32_t MergedContents::record_of(const Trace& trace, std::uint32_t record) {
  if (record >= record_numbers_.size()) return 0;
  std::uint32_t& number = record_numbers_[record];
  if (number == kNone) number = records_.add(trace.op_records[record]) + 1;
  return number;
}

std::uint32_t MergedContents::op_of(std::uint32_t number, std::uint32_t record,
                                    const OpRecords& records) {
  if (number >= ops_.size()) ops_.resize(number + 1, kNone);
  if (ops_[number] == kNone) {
    const auto* const call = records.find<OpCallRecord>(record);
    std::string name(call == nullptr ? record_text(number) : call->op);
    ops_[number] =
        op_numbers_.try_emplace(std::move(name), static_cast<std::uint32_t>(op_numbers_.size()))
            .first->second;
  }
  return ops_[number];
}

void MergedContents::take(const std::vector<TracePath>& paths, std::string keys, Trace& trace) {
  std::vector<std::uint32_t> order;
  const std::vector<std::uint32_t> modules = places_of(
      modules_.size(),
      [&](std::uint32_t left, std::uint32_t right) {
        return std::tie(modules_[left].path, modules_[left].build_id) <
               std::tie(modules_[right].path, modules_[right].build_id);
      },
      &order);
  for (const std::uint32_t number : order) trace.modules.push_back(std::move(modules_[number]));
  const auto key_of_function = [&](std::uint32_t number) {
    const TraceFunction& function = functions_[number];
    return std::tuple(at_or_none(modules, function.module), function.address,
                      std::string_view(function.symbol), std::string_view(function.source_file));
  };
  function_numbers_ = places_of(
      functions_.size(),
      [&](std::uint32_t left, std::uint32_t right) {
        return key_of_function(left) < key_of_function(right);
      },
      &order);
  for (const std::uint32_t number : order) {
    TraceFunction& function = trace.functions.emplace_back(std::move(functions_[number]));
    function.module = at_or_none(modules, function.module);
    for (std::uint32_t& target : function.tail_calls) target = function_numbers_[target];
    std::ranges::sort(function.tail_calls);
  }
  python_numbers_ = places_of(
      python_functions_.size(),
      [&](std::uint32_t left, std::uint32_t right) {
        const PythonFunction& one = python_functions_[left];
        const PythonFunction& other = python_functions_[right];
        return std::tie(one.name, one.file, one.first_line) <
               std::tie(other.name, other.file, other.first_line);
      },
      &order);
  for (const std::uint32_t number : order)
    trace.python_functions.push_back(std::move(python_functions_[number]));
  take_records(paths, std::move(keys), trace);
}

void MergedContents::take_records(const std::vector<TracePath>& paths, std::string keys,
                                  Trace& trace) {
  std::vector<std::uint8_t> is_used(records_.size() + 1);
  for (const TracePath& path : paths) {
    if ((path.kind == PathKind::op || path.kind == PathKind::node) && path.what != kNone)
      is_used[path.what] = 1;
    for (const OpCallCount& counted : path.ops)
      is_used[counted.record] = is_used[counted.results] = 1;
    for (const ActivityCount& counted : path.activities) is_used[counted.record] = 1;
  }
  std::vector<std::uint32_t> order;
  places_of(
      records_.size(),
      [&](std::uint32_t left, std::uint32_t right) { return records_[left] < records_[right]; },
      &order);
  record_numbers_.assign(records_.size() + 1, 0);
  trace.op_records.push_back(std::move(keys));
  for (const std::uint32_t number : order) {
    if (is_used[number + 1] == 0) continue;
    record_numbers_[number + 1] = static_cast<std::uint32_t>(trace.op_records.size());
    trace.op_records.push_back(std::move(records_[number]));
  }
}

}  // namespace optrace

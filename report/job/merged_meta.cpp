#include "report/job/merged_meta.h"

#include <utility>

namespace optrace {
namespace {

// Of different values for a name, the least one is kept.
template <typename Value>
void unite(std::map<std::string, Value>& table, const std::map<std::string, Value>& more) {
  for (const auto& [name, value] : more) {
    const auto [known, added] = table.try_emplace(name, value);
    if (value < known->second) known->second = value;
  }
}

}  // namespace

void MergedMeta::add(const Trace& trace, bool is_first, bool is_merged) {
  const TraceMeta& meta = trace.meta;
  unite(op_names_, meta.op_names);
  python_counted_ = python_counted_ && meta.python_calls_beyond_paths;
  if (meta.python_calls_beyond_paths)
    for (const auto& [name, calls] : *meta.python_calls_beyond_paths)
      python_calls_[name] += static_cast<std::uint64_t>(calls);  // Modulo 2^64.
  if (meta.dispatch_tables) unite(dispatch_tables_, *meta.dispatch_tables);
  if (meta.boxed_kernels) unite(boxed_kernels_, *meta.boxed_kernels);
  warnings_.insert(meta.warnings.begin(), meta.warnings.end());
  placed_ += meta.probes.placed.value_or(0);
  failed_ += meta.probes.failed.value_or(0);
  for (const auto& [kind, count] : meta.shortfalls) shortfalls_[kind] += count;
  if (!is_merged) {
    if (meta.untraced_children) ++shortfalls_["untraced_children"];
    if (meta.exit_status) ++shortfalls_["exit_status"];
    if (trace.op_records.empty() || trace.op_records[0].empty())
      ++shortfalls_["op_records_missing"];
  }
  if (is_first) first_ = meta;
}

TraceMeta MergedMeta::take() {
  TraceMeta meta = std::move(first_);
  meta.process = {};
  meta.recording.reset();
  meta.other_traces.clear();
  meta.untraced_children = false;
  meta.exit_status.reset();
  meta.op_names = std::move(op_names_);
  meta.python_calls_beyond_paths.reset();
  if (python_counted_)
    meta.python_calls_beyond_paths.emplace(python_calls_.begin(), python_calls_.end());
  meta.dispatch_tables.reset();
  if (!dispatch_tables_.empty()) meta.dispatch_tables = std::move(dispatch_tables_);
  meta.boxed_kernels.reset();
  if (!boxed_kernels_.empty()) meta.boxed_kernels = std::move(boxed_kernels_);
  if (meta.probes != TraceMeta::Probes() || failed_ != 0) {
    meta.probes.placed = placed_;
    meta.probes.failed = failed_;
  }
  meta.warnings.assign(warnings_.begin(), warnings_.end());
  meta.shortfalls = std::move(shortfalls_);
  return meta;
}

}  // namespace optrace

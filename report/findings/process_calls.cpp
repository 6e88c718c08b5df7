#include "report/findings/process_calls.h"

#include <algorithm>

#include <fmt/core.h>

namespace optrace {

ProcessCalls::ProcessCalls(const Report& report) : processes_(report.processes) {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    const ReportProcess& process = processes_[i];
    if (process.rank) by_rank_.emplace(*process.rank, i);
    if (process.id) by_id_.emplace(*process.id, i);
  }
  for (const auto& [rank, process] : by_rank_) all_.push_back(process);
  if (!all_.empty()) return;
  for (std::size_t i = 0; i < std::max<std::size_t>(processes_.size(), 1); ++i) all_.push_back(i);
}

void ProcessCalls::add(const Frame& frame, const ProcessShare* taken_by, std::uint64_t calls,
                       CallsByProcess& sums) const {
  if (frame.calls == 0) return;
  CallsByProcess of_frame;
  auto left = static_cast<double>(frame.calls);
  const ProcessShare& share = frame.detail->processes;
  for (const CallsOfProcesses& group : share.calls)
    for (const std::size_t process : positions(group.processes, share.by_rank)) {
      of_frame[process] = static_cast<double>(group.least);
      left -= static_cast<double>(group.least);
    }
  std::vector<std::size_t> others =
      taken_by == nullptr ? all_ : positions(taken_by->processes, taken_by->by_rank);
  std::erase_if(others, [&](std::size_t process) { return of_frame.contains(process); });
  for (const std::size_t process : others)
    of_frame[process] = left / static_cast<double>(others.size());
  for (const auto& [process, own] : of_frame)
    sums[process] += own * static_cast<double>(calls) / static_cast<double>(frame.calls);
}

std::string ProcessCalls::among_all(std::size_t some) const {
  if (processes_.size() < 2) return {};
  return fmt::format("{} of {} {}", some, all_.size(), by_rank_.empty() ? "processes" : "ranks");
}

std::vector<std::size_t> ProcessCalls::positions(const std::vector<std::uint64_t>& names,
                                                 bool by_rank) const {
  std::vector<std::size_t> found;
  const auto& known = by_rank ? by_rank_ : by_id_;
  for (const std::uint64_t name : names)
    if (const auto at = known.find(name); at != known.end()) found.push_back(at->second);
  return found;
}

}  // namespace optrace

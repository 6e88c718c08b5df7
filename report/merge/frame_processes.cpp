#include "report/merge/frame_processes.h"

#include <algorithm>

#include <fmt/core.h>

#include "report/job/process_names.h"

namespace optrace {
namespace {

// Ranks and process ids that the frames of a report list in total. A list of 1,023 ranks in each of
// 10,000 frames has fewer.
constexpr std::size_t kMaxNames = std::size_t{1} << 24U;

// Returns the name of a frame for use in a sentence.
std::string shown(const Frame& frame) {
  return frame.op && frame.layer == Layer::dispatcher ? *frame.op : frame.name;
}

std::string place_of(const Frame& frame, const Frame* parent) {
  return parent == nullptr ? shown(frame)
                           : fmt::format("{} under {}", shown(frame), shown(*parent));
}

std::string times(std::uint64_t count) {
  return count == 1 ? "once" : count == 2 ? "twice" : fmt::format("{} times", count);
}

bool is_exact(const CallPattern& pattern) {
  return std::ranges::all_of(pattern, [](const CallGroup& one) { return one.least == one.most; });
}

// Returns the place of the largest group, the first one of equally large ones.
std::size_t usual_group(const CallPattern& pattern, const CallPatterns& patterns) {
  const auto largest = std::ranges::max_element(
      pattern, {}, [&](const CallGroup& group) { return count_of(patterns.set(group.processes)); });
  return static_cast<std::size_t>(largest - pattern.begin());
}

}  // namespace

FrameProcesses::FrameProcesses(const Trace& trace, MergedProcesses merged)
    : trace_(trace), merged_(std::move(merged)), names_left_(kMaxNames) {
  // Those with ranks come first. What started them has none.
  const auto ranks = static_cast<std::uint32_t>(std::ranges::count_if(
      merged_.processes, [](const MergedProcess& one) { return one.rank.has_value(); }));
  const auto count = static_cast<std::uint32_t>(merged_.processes.size());
  all_ = merged_.patterns.add_set({{0, (ranks == 0 ? count : ranks) - 1}});
}

std::vector<ReportProcess> FrameProcesses::processes() const {
  std::vector<ReportProcess> list;
  list.reserve(merged_.processes.size());
  for (const MergedProcess& process : merged_.processes) list.push_back({process.id, process.rank});
  return list;
}

bool FrameProcesses::have_ranks(const ProcessSet& processes) const {
  return !processes.empty() && merged_.processes[processes.back().last].rank.has_value();
}

std::vector<std::uint64_t> FrameProcesses::names(const ProcessSet& processes, bool by_rank) const {
  std::vector<std::uint64_t> list;
  for (const ProcessRun& run : processes)
    for (std::uint32_t process = run.first; process <= run.last; ++process) {
      const MergedProcess& named = merged_.processes[process];
      list.push_back((by_rank ? named.rank : named.id).value_or(process));
    }
  return list;
}

std::string FrameProcesses::named(const ProcessSet& processes) const {
  const bool one = count_of(processes) == 1;
  const bool by_rank = have_ranks(processes);
  return fmt::format("{} {}", by_rank ? (one ? "rank" : "ranks") : (one ? "process" : "processes"),
                     process_names(names(processes, by_rank)));
}

// Returns true if all processes are among these, or at least all ranks.
bool FrameProcesses::took_all(std::uint32_t participants) {
  return merged_.patterns.unite(participants, all_) == participants;
}

bool FrameProcesses::may_list(const ProcessSet& processes) {
  const std::uint64_t count = count_of(processes);
  if (count > names_left_) return false;
  names_left_ -= count;
  return true;
}

// Returns the pattern of a frame's calls, or kNone if it is not known or the same for all
// processes.
std::uint32_t FrameProcesses::pattern_of(const ReportPath& path, const Frame& frame,
                                         std::uint32_t& participants) {
  CallPatterns& patterns = merged_.patterns;
  std::uint64_t calls = 0;
  std::uint32_t pattern = kNone;
  participants = patterns.add_set({});
  const auto add = [&](std::uint32_t traced) {
    const std::uint32_t added = merged_.pattern_of[traced];
    calls += trace_.paths[traced].calls;
    participants = patterns.unite(participants, patterns.participants(added));
    pattern = pattern == kNone ? added : patterns.sum(pattern, added);
  };
  add(path.traced);
  for (const std::uint32_t traced : path.also) add(traced);
  // Calls that have a frame of their own were taken off.
  if (calls != frame.calls || pattern == kNone) return kNone;
  const CallPattern& groups = patterns[pattern];
  return groups.size() == 1 && is_exact(groups) ? kNone : pattern;
}

std::vector<ProcessSet> FrameProcesses::unusual(std::uint32_t pattern) const {
  std::vector<ProcessSet> sets;
  const CallPattern& groups = merged_.patterns[pattern];
  if (!is_exact(groups)) return sets;
  const std::size_t usual = usual_group(groups, merged_.patterns);
  for (std::size_t i = 0; i < groups.size(); ++i)
    if (i != usual) sets.push_back(merged_.patterns.set(groups[i].processes));
  return sets;
}

void FrameProcesses::describe_calls(std::uint32_t pattern, ProcessShare& share) {
  const CallPattern& groups = merged_.patterns[pattern];
  std::vector<CallsOfProcesses> list;
  if (!is_exact(groups)) {
    list.push_back({groups[0].least, groups[0].most, {}});
  } else {
    const std::size_t usual = usual_group(groups, merged_.patterns);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (i == usual) continue;
      const ProcessSet& processes = merged_.patterns.set(groups[i].processes);
      if (!may_list(processes)) return;
      list.push_back({groups[i].least, groups[i].most, names(processes, share.by_rank)});
    }
  }
  share.calls = std::move(list);
}

// Returns the rest of a sentence: `rank 17 took it 12 times, the others 10 times`.
std::string FrameProcesses::frequencies(std::uint32_t pattern) const {
  const CallPattern& groups = merged_.patterns[pattern];
  if (!is_exact(groups))
    return fmt::format("each took it {} to {} times", groups[0].least, groups[0].most);
  const std::size_t usual = usual_group(groups, merged_.patterns);
  std::string text;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (i == usual) continue;
    text += fmt::format("{} {}{}, ", named(merged_.patterns.set(groups[i].processes)),
                        text.empty() ? "took it " : "", times(groups[i].least));
  }
  return text + fmt::format("the others {}", times(groups[usual].least));
}

void FrameProcesses::describe(const ReportPath& path, std::uint32_t index, const Frame* parent,
                              Frame& frame) {
  PathProcesses found;
  found.pattern = pattern_of(path, frame, found.participants);
  paths_.resize(index);
  paths_.push_back(found);
  ProcessShare share;
  share.by_rank = have_ranks(merged_.patterns.set(found.participants));
  const PathProcesses* const above = path.parent == kNone ? nullptr : &paths_[path.parent];
  const auto note = [](Difference& difference, bool is_new, auto&& what) {
    if (is_new)
      difference.what = what();
    else
      ++difference.more;
  };
  if (!took_all(found.participants)) {
    const ProcessSet& participants = merged_.patterns.set(found.participants);
    if (may_list(participants)) share.processes = names(participants, share.by_rank);
    if (above == nullptr || above->participants != found.participants) {
      const auto [at, added] = taken_by_.try_emplace(participants);
      note(at->second, added, [&] { return place_of(frame, parent); });
    }
  }
  if (found.pattern != kNone) describe_calls(found.pattern, share);
  if (!share.empty()) frame.detail.edit().processes = std::move(share);
  if (found.pattern == kNone) return;
  std::vector<ProcessSet> others = unusual(found.pattern);
  if (above != nullptr && above->pattern != kNone && unusual(above->pattern) == others) return;
  const auto [at, added] = uneven_.try_emplace(std::move(others));
  note(at->second, added,
       [&] { return fmt::format("{}: {}", place_of(frame, parent), frequencies(found.pattern)); });
}

std::vector<std::string> FrameProcesses::differences() const {
  const auto more = [](const Difference& difference, const char* what) {
    return difference.more == 0 ? ""
                                : fmt::format("{} {} more {}", what, difference.more,
                                              difference.more == 1 ? "path" : "paths");
  };
  std::vector<std::string> sentences;
  sentences.reserve(taken_by_.size() + uneven_.size());
  for (const auto& [participants, difference] : taken_by_)
    sentences.push_back(fmt::format("only {} took {}{}", named(participants), difference.what,
                                    more(difference, ", and")));
  for (const auto& [others, difference] : uneven_)
    sentences.push_back(difference.what + more(difference, "; they also differ in"));
  return sentences;
}

}  // namespace optrace

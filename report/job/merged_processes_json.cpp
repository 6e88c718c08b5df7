#include <charconv>
#include <string>
#include <string_view>
#include <unordered_map>

#include <fmt/core.h>

#include "platform/error.h"
#include "platform/text/json_fields.h"
#include "platform/text/json_members.h"
#include "platform/text/json_reader.h"
#include "report/job/merged_processes.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

// More processes than any job has; bounds what a malformed file can request.
constexpr std::size_t kMaxProcesses = std::size_t{1} << 20U;

[[noreturn]] void refuse(const char* reason) {
  throw Error(ExitStatus::usage,
              fmt::format("the merged trace is corrupt: in its metadata, {}", reason),
              "Copy the file again if it was copied, or merge the traces again with `optrace "
              "merge`.");
}

std::uint64_t number(const Json& value) {
  if (!value.is_number_unsigned()) refuse("a number is missing");
  return value.get<std::uint64_t>();
}

std::uint32_t number_below(const Json& value, std::size_t end) {
  const std::uint64_t found = number(value);
  if (found >= end) refuse("a number is too large");
  return static_cast<std::uint32_t>(found);
}

const Json& required_list(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) refuse("a list is missing");
  return *found;
}

MergedProcess read_process(const Json& value) {
  if (!value.is_object()) refuse("a process is not an object");
  MergedProcess process;
  process.rank = number_at(value, "rank");
  process.id = number_at(value, "id");
  process.threads = number_at(value, "threads").value_or(0);
  const std::string digest = text_at(value, "digest");
  const char* const end = digest.data() + digest.size();
  const auto read = std::from_chars(digest.data(), end, process.digest, 16);
  if (read.ec != std::errc() || read.ptr != end) refuse("a digest is not a number");
  return process;
}

// Reads a group: least and most calls, then the first and last process of each run.
CallGroup read_group(const Json& value, MergedProcesses& merged) {
  if (!value.is_array() || value.size() < 4 || value.size() % 2 != 0)
    refuse("a group of processes is malformed");
  ProcessSet processes;
  for (std::size_t i = 2; i < value.size(); i += 2) {
    const std::uint32_t first = number_below(value[i], merged.processes.size());
    const std::uint32_t last = number_below(value[i + 1], merged.processes.size());
    if (last < first || (!processes.empty() && first <= processes.back().last + 1))
      refuse("the processes of a group are not in order");
    processes.push_back({first, last});
  }
  return {number(value[0]), number(value[1]), merged.patterns.add_set(std::move(processes))};
}

std::uint32_t read_pattern(const Json& value, MergedProcesses& merged) {
  if (!value.is_array() || value.empty() || value.size() > kMaxCallGroups)
    refuse("the groups of a path are malformed");
  CallPattern pattern;
  std::uint32_t all = merged.patterns.add_set({});
  std::uint64_t count = 0;
  for (const Json& group : value) {
    pattern.push_back(read_group(group, merged));
    const CallGroup& added = pattern.back();
    if (added.least > added.most || (added.least != added.most && value.size() > 1))
      refuse("the calls of a group are malformed");
    if (pattern.size() > 1 && added.least <= pattern[pattern.size() - 2].least)
      refuse("the groups of a path are not in order");
    all = merged.patterns.unite(all, added.processes);
    count += count_of(merged.patterns.set(added.processes));
  }
  if (count_of(merged.patterns.set(all)) != count) refuse("a process is in two groups");
  return merged.patterns.add(std::move(pattern));
}

// The patterns that need not be stored: the path's processes are those of its parent, and each took
// it equally often. Finds them, and remembers the sizes of sets.
class UniformPatterns {
 public:
  UniformPatterns(CallPatterns& patterns, std::size_t processes)
      : patterns_(patterns),
        all_(patterns.add_set(processes == 0
                                  ? ProcessSet{}
                                  : ProcessSet{{0, static_cast<std::uint32_t>(processes - 1)}})) {}

  /// The processes of a path without a parent.
  std::uint32_t all() const { return all_; }

  std::uint32_t find(std::uint32_t participants, std::uint64_t calls) {
    const auto [known, added] = sizes_.try_emplace(participants, 0);
    if (added) known->second = count_of(patterns_.set(participants));
    if (known->second == 0 || calls % known->second != 0)
      refuse("the calls of a path are not those of its processes");
    return patterns_.add_uniform(participants, calls / known->second);
  }

 private:
  CallPatterns& patterns_;
  const std::uint32_t all_;
  std::unordered_map<std::uint32_t, std::uint64_t> sizes_;
};

}  // namespace

std::optional<MergedProcesses> read_merged_processes(const Trace& trace) {
  if (trace.meta.merged.empty()) return std::nullopt;
  const Json stored = read_json(trace.meta.merged);
  if (!stored.is_object()) refuse("'merged' is not an object");
  MergedProcesses merged;
  const Json& processes = required_list(stored, "processes");
  if (processes.empty() || processes.size() > kMaxProcesses) refuse("there are too many processes");
  for (const Json& process : processes) {
    merged.processes.push_back(read_process(process));
    const std::size_t count = merged.processes.size();
    if (count > 1 && !comes_before(merged.processes[count - 2], merged.processes.back()))
      refuse("the processes are not in order");
  }
  std::vector<std::uint32_t> patterns;
  for (const Json& pattern : required_list(stored, "patterns"))
    patterns.push_back(read_pattern(pattern, merged));
  const Json& uneven = required_list(stored, "paths");
  if (uneven.size() % 2 != 0) refuse("a path has no pattern");

  UniformPatterns uniform(merged.patterns, merged.processes.size());
  std::vector<std::uint32_t> participants;
  participants.reserve(trace.paths.size());
  merged.pattern_of.reserve(trace.paths.size());
  std::size_t next = 0;
  for (std::uint32_t i = 0; i < trace.paths.size(); ++i) {
    const TracePath& path = trace.paths[i];
    if (next < uneven.size() && number(uneven[next]) == i) {
      merged.pattern_of.push_back(patterns[number_below(uneven[next + 1], patterns.size())]);
      participants.push_back(merged.patterns.participants(merged.pattern_of.back()));
      next += 2;
      continue;
    }
    participants.push_back(path.parent == kNone ? uniform.all() : participants[path.parent]);
    merged.pattern_of.push_back(uniform.find(participants.back(), path.calls));
  }
  if (next != uneven.size()) refuse("the paths are not in order");
  return merged;
}

std::string merged_processes_json(MergedProcesses& merged, const std::vector<TracePath>& paths) {
  Json processes = Json::array();
  for (const MergedProcess& process : merged.processes)
    processes.push_back({{"rank", value_or_null(process.rank)},
                         {"id", value_or_null(process.id)},
                         {"digest", fmt::format("{:016x}", process.digest)},
                         {"threads", process.threads}});
  const UniformPatterns uniform(merged.patterns, merged.processes.size());
  std::vector<std::uint32_t> participants;
  participants.reserve(paths.size());
  std::unordered_map<std::uint32_t, std::uint32_t> places;
  Json patterns = Json::array();
  Json uneven = Json::array();
  for (std::uint32_t i = 0; i < paths.size(); ++i) {
    const std::uint32_t pattern = merged.pattern_of[i];
    const CallPattern& groups = merged.patterns[pattern];
    participants.push_back(merged.patterns.participants(pattern));
    const std::uint32_t usual =
        paths[i].parent == kNone ? uniform.all() : participants[paths[i].parent];
    if (groups.size() == 1 && groups[0].least == groups[0].most && participants.back() == usual)
      continue;
    const auto [place, added] =
        places.try_emplace(pattern, static_cast<std::uint32_t>(patterns.size()));
    if (added) {
      Json list = Json::array();
      for (const CallGroup& group : groups) {
        Json numbers = {group.least, group.most};
        for (const ProcessRun& run : merged.patterns.set(group.processes)) {
          numbers.push_back(run.first);
          numbers.push_back(run.last);
        }
        list.push_back(std::move(numbers));
      }
      patterns.push_back(std::move(list));
    }
    uneven.push_back(i);
    uneven.push_back(place->second);
  }
  return Json{{"processes", std::move(processes)},
              {"patterns", std::move(patterns)},
              {"paths", std::move(uneven)}}
      .dump();
}

}  // namespace optrace

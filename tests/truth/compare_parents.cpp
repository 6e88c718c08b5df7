// Compares optrace's call tree with a single-stepped run, on workloads of run_workload.py:
//
//   compare_parents run --workload W ... --mode jump --mode int3 ... -o FOLDER
//       writes FOLDER/W/truth, FOLDER/W/jump, ...; with --compare prints a line of JSON per trace
//       instead of writing the trace
//   compare_parents compare TRACE TRUTH
//       prints a line of JSON, and the differences in words
//   compare_parents paths TRACE
//       compares a timeline's paths with its call trees
//
// `run` first single-steps the workloads in a process that has no probes yet, then records them
// with optrace's probes in the same process. Entries of the two runs are matched by aligning the
// two sequences of entered functions; then the parents of matched entries are compared.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/files/descriptor.h"
#include "platform/files/private_folder.h"
#include "platform/process/child_process.h"
#include "src/command_line/command_line.h"
#include "tracer/calltree/call_tree.h"
#include "tracer/collect/collector.h"
#include "tracer/probes/probe_session.h"
#include "tracer/trace/trace.h"
#include "truth/alignment.h"
#include "truth/path_sums.h"
#include "truth/truth_file.h"

namespace optrace {
namespace {

struct Settings {
  std::string python;
  std::string program;  // run_workload.py
  std::vector<std::string> workloads;
  std::string agent;
  std::string stepper;
  std::vector<std::string> modes;
  std::uint64_t most_steps = 40'000'000;
  bool python_events = false;
  bool compare = false;
};

constexpr int kAnswerSeconds = 540;  // Stepping is slow.
constexpr std::size_t kMaxDifferences = 3000;
constexpr int kMaxExamples = 10;

// Thrown if a workload can't be stepped or recorded. Other workloads may still succeed.
class Refusal : public Error {
 public:
  using Error::Error;
};

// The process of run_workload.py and the socket to it.
class Workloads {
 public:
  explicit Workloads(const Settings& settings) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      throw Error(ExitStatus::failed, "no socket pair: " + describe_errno(errno), "Try again.");
    }
    socket_ = ends[0];
    const timeval limit{.tv_sec = kAnswerSeconds, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    process_.emplace_back(ChildProcess::Options{
        .arguments = {settings.python, "-B", settings.program, "3", settings.agent,
                      settings.stepper, std::to_string(settings.most_steps)},
        .environment = {{"PYTHONHASHSEED", "0"}, {"OMP_NUM_THREADS", "1"}},
        .descriptors = {{ends[1], 3}}});
    close(ends[1]);
    std::istringstream paths(read_line());
    for (std::string path; std::getline(paths, path, '\t');) modules_.emplace_back(path);
  }
  ~Workloads() { close(socket_); }
  Workloads(const Workloads&) = delete;
  Workloads& operator=(const Workloads&) = delete;

  const std::vector<std::filesystem::path>& modules() const { return modules_; }

  // Sends an order. Returns the rest of the answer after `ok`; throws Refusal for other answers.
  std::string order(const nlohmann::json& order) {
    const std::string line = order.dump() + "\n";
    if (write(socket_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      throw Error(ExitStatus::failed, "the workloads' process has ended", "Run it alone.");
    }
    const std::string answer = read_line();
    if (!answer.starts_with("ok")) {
      throw Refusal(ExitStatus::failed, answer, "Run it alone to see why.");
    }
    return answer.substr(std::min<std::size_t>(answer.size(), 3));
  }

 private:
  std::string read_line() {
    std::string line;
    for (char byte = 0; read(socket_, &byte, 1) == 1;) {
      if (byte == '\n') return line;
      line += byte;
    }
    const auto status = process_.back().wait_for(std::chrono::seconds(2));
    throw Error(ExitStatus::failed,
                "the process gave no answer: " +
                    (status ? describe_wait_status(*status) : std::string("it still runs")),
                "Run it alone to see why.");
  }

  int socket_ = -1;
  std::vector<ChildProcess> process_;
  std::vector<std::filesystem::path> modules_;
};

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

std::string place_of(const std::string& module, std::uint64_t address) {
  return fmt::format("{}+{:x}", file_name(module), address);
}

// Assigns numbers to functions, which are the same in the trace and in the truth.
class Identities {
 public:
  std::uint64_t of(const std::string& place) {
    return numbers_.try_emplace(place, numbers_.size()).first->second;
  }

 private:
  std::unordered_map<std::string, std::uint64_t> numbers_;
};

// The entries of probed functions in a single-stepped run, each with its nearest such ancestor.
struct ProbedTruth {
  std::vector<std::uint64_t> functions;
  std::vector<std::uint32_t> parents;  // Indexes into these vectors.
  std::vector<std::uint32_t> entries;  // Indexes into Truth::entries.
};

ProbedTruth probed_part(const Truth& truth, const std::vector<std::uint64_t>& numbers,
                        const std::unordered_set<std::uint64_t>& probed) {
  ProbedTruth part;
  std::vector<std::uint32_t> place(truth.entries.size(), kNone);
  for (std::uint32_t i = 0; i < truth.entries.size(); ++i) {
    const std::uint64_t number = numbers[truth.entries[i].function];
    if (!probed.contains(number)) continue;
    std::uint32_t parent = truth.entries[i].parent;
    while (parent != kNone && place[parent] == kNone) parent = truth.entries[parent].parent;
    place[i] = static_cast<std::uint32_t>(part.functions.size());
    part.functions.push_back(number);
    part.parents.push_back(parent == kNone ? kNone : place[parent]);
    part.entries.push_back(i);
  }
  return part;
}

struct Entries {
  const std::vector<std::uint64_t>& functions;
  const std::vector<std::uint64_t>& slots;
};

// Matches the entries of `left` with those of `right`. Where the two runs differ, because of
// CPython's caches, the functions alone allow several alignments, and a wrong one makes correct
// parents look wrong. Therefore matching entries must also be at the same depth of the stack.
std::vector<std::uint32_t> align_entries(const Entries& left, const Entries& right) {
  std::unordered_map<std::uint64_t, std::size_t> shifts;  // Offset between the stacks: count.
  const auto first = align(left.functions, right.functions, kMaxDifferences);
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (first[i] != kNone) ++shifts[left.slots[i] - right.slots[first[i]]];
  }
  const auto usual =
      std::max_element(shifts.begin(), shifts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::uint64_t shift = usual == shifts.end() ? 0 : usual->first;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> numbers;
  const auto numbered = [&](const Entries& entries, std::uint64_t added) {
    std::vector<std::uint64_t> result;
    result.reserve(entries.functions.size());
    for (std::size_t i = 0; i < entries.functions.size(); ++i) {
      const std::pair key(entries.functions[i], entries.slots[i] + added);
      result.push_back(numbers.try_emplace(key, numbers.size()).first->second);
    }
    return result;
  };
  return align(numbered(left, 0), numbered(right, shift), kMaxDifferences);
}

// Returns the innermost caller of an entry that is this function, up to `outermost`, which may be
// kNone. Returns kNone if none is.
std::uint32_t find_true_caller(const Truth& truth, const std::vector<std::uint64_t>& numbers,
                               std::uint32_t entry, std::uint64_t function,
                               std::uint32_t outermost) {
  for (std::uint32_t caller = truth.entries[entry].parent; caller != kNone;
       caller = truth.entries[caller].parent) {
    if (numbers[truth.entries[caller].function] == function) return caller;
    if (caller == outermost) break;
  }
  return kNone;
}

struct Comparison {
  nlohmann::json counts;
  bool differs = false;
};

Comparison compare(const Trace& trace, const Truth& truth) {
  Identities identities;
  std::vector<std::uint64_t> truth_numbers;
  truth_numbers.reserve(truth.functions.size());
  for (const TruthFunction& function : truth.functions) {
    truth_numbers.push_back(identities.of(place_of(function.module, function.address)));
  }
  std::vector<std::uint64_t> trace_numbers;
  std::unordered_set<std::uint64_t> probed;
  for (const TraceFunction& function : trace.functions) {
    const std::string module =
        function.module == kNone ? "nowhere" : trace.modules.at(function.module).path;
    trace_numbers.push_back(identities.of(place_of(module, function.address)));
    if (function.probed) probed.insert(trace_numbers.back());
  }
  const ProbedTruth part = probed_part(truth, truth_numbers, probed);
  const auto name_in_truth = [&](std::uint32_t index) {
    return index == kNone ? "(entered before)"
                          : truth.functions[truth.entries[part.entries[index]].function].symbol;
  };

  // The thread with the most events ran the workload. Other threads are not compared.
  const ThreadRecord* thread = nullptr;
  std::uint64_t elsewhere = 0;
  for (const ThreadRecord& candidate : trace.threads) {
    if (thread == nullptr || candidate.events.size() > thread->events.size()) thread = &candidate;
    elsewhere += candidate.events.size();
  }
  if (thread == nullptr) {
    throw Error(ExitStatus::usage, "the trace holds no thread", "Record it again.");
  }
  elsewhere -= thread->events.size();

  std::vector<std::uint32_t> events;  // Indexes of function entries in thread->events.
  std::vector<std::uint32_t> place(thread->events.size(), kNone);
  std::vector<std::uint64_t> functions;
  for (std::uint32_t i = 0; i < thread->events.size(); ++i) {
    if (thread->events[i].kind != EventKind::function_entry) continue;
    place[i] = static_cast<std::uint32_t>(events.size());
    events.push_back(i);
    functions.push_back(trace_numbers.at(thread->events[i].what));
  }
  const auto name_in_trace = [&](std::uint32_t event) {
    return event == kNone ? "(entered before)" : trace.functions[thread->events[event].what].symbol;
  };

  std::vector<std::uint64_t> slots;
  slots.reserve(events.size());
  for (const std::uint32_t event : events) slots.push_back(thread->events[event].stack_pointer);
  std::vector<std::uint64_t> true_slots;
  true_slots.reserve(part.entries.size());
  for (const std::uint32_t entry : part.entries) {
    true_slots.push_back(truth.entries[entry].stack_pointer);
  }
  const auto match = align_entries({functions, slots}, {part.functions, true_slots});
  // Entries that only one of the runs has can't be compared. They are counted by file.
  std::map<std::string, std::uint64_t> only_recorded;
  std::map<std::string, std::uint64_t> only_stepped;
  std::vector<bool> has_partner(part.functions.size());
  for (std::uint32_t i = 0; i < events.size(); ++i) {
    if (match[i] != kNone) {
      has_partner[match[i]] = true;
      continue;
    }
    const std::uint32_t module = trace.functions[thread->events[events[i]].what].module;
    ++only_recorded[module == kNone ? "nowhere" : file_name(trace.modules[module].path)];
  }
  for (std::uint32_t i = 0; i < part.functions.size(); ++i) {
    if (has_partner[i]) continue;
    ++only_stepped[file_name(truth.functions[truth.entries[part.entries[i]].function].module)];
  }
  const TraceCallTreeFunctions known(trace);
  const CallTree tree(trace, known, *thread);
  std::uint64_t matched = 0;
  std::uint64_t wrong = 0;
  std::uint64_t tail_calls = 0;
  std::uint64_t wrong_tail_calls = 0;
  std::uint64_t turns = 0;
  std::uint64_t shifts = 0;
  std::uint64_t entered_before = 0;  // Entries whose parent was entered before recording.
  std::uint64_t by_function = 0;
  std::uint64_t parents_only_recorded = 0;
  std::uint64_t callers_without_probe = 0;
  std::uint64_t wrong_callers = 0;  // Parents without a probe that the truth does not have.
  const std::set<std::uint32_t> matched_entries(match.begin(), match.end());
  for (std::uint32_t i = 0; i < events.size(); ++i) {
    if (match[i] == kNone) continue;
    ++matched;
    const std::uint32_t event = events[i];
    std::uint32_t parent = tree.parent_event(event);
    while (parent != kNone && thread->events[parent].kind == EventKind::caller)
      parent = tree.parent_event(parent);
    const std::uint32_t ours = parent == kNone ? kNone : match[place[parent]];
    const std::uint32_t true_parent = part.parents[match[i]];
    // A parent without a match can only be compared by its function. The same holds for a parent
    // that was matched with another activation of the true parent's function while the true parent
    // has no match: where recording begins, the two may be one call apart.
    const bool taken_for_another = parent != kNone && ours != kNone && true_parent != kNone &&
                                   ours != true_parent && !matched_entries.contains(true_parent) &&
                                   part.functions[ours] == part.functions[true_parent];
    const bool without_partner = (parent != kNone && ours == kNone) || taken_for_another;
    if (without_partner) ++by_function;
    if (true_parent == kNone) ++entered_before;
    const bool same = without_partner ? true_parent != kNone &&
                                            functions[place[parent]] == part.functions[true_parent]
                                      : ours == true_parent;
    if (!same && parent != kNone && ours == kNone && !taken_for_another) {
      // Only the recorded run has this parent: CPython's caches led the runs along different paths,
      // so the two entries are similar but not the same.
      ++parents_only_recorded;
      continue;
    }
    if (!same) {
      ++wrong;
      if (wrong <= kMaxExamples) {
        fmt::print(stderr,
                   "event {}, truth's entry {}: {}\n  is under   {} (event {})\n"
                   "  belongs to {}\n",
                   event, part.entries[match[i]], name_in_trace(event), name_in_trace(parent),
                   static_cast<std::int32_t>(parent), name_in_truth(true_parent));
      }
      continue;
    }
    const TruthEntry& entry = truth.entries[part.entries[match[i]]];
    // The tree also has callers without a probe, whose jumps are tail calls too.
    std::uint32_t true_caller = true_parent == kNone ? kNone : part.entries[true_parent];
    if (const std::uint32_t shown = tree.parent_event(event); shown != parent) {
      true_caller = find_true_caller(truth, truth_numbers, part.entries[match[i]],
                                     trace_numbers.at(thread->events[shown].what), true_caller);
      if (true_caller == kNone) {
        ++wrong_callers;
        if (wrong_callers <= kMaxExamples) {
          fmt::print(stderr, "event {}: {} is under {}, which did not call it\n", event,
                     name_in_trace(event), name_in_trace(shown));
        }
        continue;
      }
      ++callers_without_probe;
    }
    const bool was_jump = true_caller != kNone && entry.how != "turn" &&
                          truth.entries[true_caller].stack_pointer == entry.stack_pointer;
    const CallTree::Node& node = tree.nodes()[tree.node_of_event(event)];
    if (entry.how == "shift") ++shifts;
    if (entry.how == "turn") {
      ++turns;
      continue;
    }
    if (was_jump) ++tail_calls;
    if (was_jump != node.tail_call) {
      ++wrong_tail_calls;
      if (wrong_tail_calls <= kMaxExamples) {
        fmt::print(stderr, "event {}: {} {} by a jump of {}\n", event, name_in_trace(event),
                   was_jump ? "was entered, unmarked," : "was not entered, though marked,",
                   name_in_truth(true_parent));
      }
    }
  }
  const PathSums sums = compare_path_sums(trace);
  if (sums.differences != 0) fmt::print(stderr, "the first path that differs: {}\n", sums.first);
  const CallTreeStatistics& statistics = tree.statistics();
  Comparison result;
  result.differs =
      wrong != 0 || wrong_tail_calls != 0 || wrong_callers != 0 || sums.differences != 0;
  result.counts = {{"events", events.size()},
                   {"truth_entries", part.functions.size()},
                   {"truth_entries_without_probe", truth.entries.size() - part.functions.size()},
                   {"matched", matched},
                   {"matched_entered_before_recording", entered_before},
                   {"matched_parents_by_function", by_function},
                   {"parents_only_recorded", parents_only_recorded},
                   {"wrong_parents", wrong},
                   {"tail_calls", tail_calls},
                   {"wrong_tail_calls", wrong_tail_calls},
                   {"callers_without_probe", callers_without_probe},
                   {"wrong_callers", wrong_callers},
                   {"turns", turns},
                   {"shifts", shifts},
                   {"only_recorded", only_recorded},
                   {"only_stepped", only_stepped},
                   {"paths", sums.paths},
                   {"path_differences", sums.differences},
                   {"steps", truth.steps},
                   {"lost", thread->lost},
                   {"events_on_other_threads", elsewhere},
                   {"probes", trace.meta.shortfalls},
                   {"tree",
                    {{"roots", statistics.roots},
                     {"self_entries", statistics.self_entries},
                     {"indirect_tail_calls", statistics.indirect_tail_calls},
                     {"unprobed_callers", statistics.unprobed_callers},
                     {"recursive_callers", statistics.recursive_callers}}}};
  return result;
}

void say(const nlohmann::json& line) {
  fmt::print("{}\n", line.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
  std::fflush(stdout);
}

Trace record(Workloads& workloads, const std::string& workload, bool python_events,
             ProbeSession& session, std::vector<std::filesystem::path>& plans,
             const std::filesystem::path& raw) {
  for (const auto& plan : std::exchange(plans, {}))
    workloads.order({{"order", "place"}, {"file", plan.string()}});
  workloads.order({{"order", "record"},
                   {"workload", workload},
                   {"python", python_events},
                   {"file", raw.string()}});
  std::uint64_t jump_count = 0;
  std::uint64_t trap_count = 0;
  std::istringstream(workloads.order({{"order", "count"}})) >> jump_count >> trap_count;
  const Descriptor region(::open(raw.c_str(), O_RDWR | O_CLOEXEC));
  Collector collector(region.get(), session,
                      {.selection = {}, .timeline = true, .single_call = true});
  collector.finish();
  TraceMeta meta;
  meta.op = workload;
  // A trace has no kinds of probes, but it has counts by name.
  meta.shortfalls = {{"jumps", jump_count}, {"traps", trap_count}};
  return collector.take(std::move(meta));
}

// Steps and records `wanted` in one process. Returns the workload at which the process died; empty
// if it did not die.
std::string run_together(const Settings& settings, const std::vector<std::string>& wanted,
                         const std::filesystem::path& folder) {
  std::string current;
  const auto refused = [&](const std::string& doing, const Error& error) {
    say({{"workload", current}, {"doing", doing}, {"refused", error.what()}});
  };
  try {
    Workloads workloads(settings);
    std::vector<std::string> stepped;
    for (const std::string& workload : wanted) {
      current = workload;
      const auto own = folder / workload;
      std::filesystem::create_directory(own);
      try {
        workloads.order({{"order", "step"},
                         {"workload", workload},
                         {"python", settings.python_events},
                         {"file", (own / "truth").string()}});
        stepped.push_back(workload);
      } catch (const Refusal& error) {
        refused("step", error);
      }
    }
    current.clear();
    for (const std::string& mode : settings.modes) {
      const PrivateFolder scratch;
      ProbeSession session(scratch.path());
      auto plans = session.initial_plans(workloads.modules());
      workloads.order({{"order", "patch"}, {"jumps", mode == "jump"}});
      for (const std::string& workload : stepped) {
        current = workload;
        try {
          const Trace trace = record(workloads, workload, settings.python_events, session, plans,
                                     scratch.path() / "recording");
          if (!settings.compare) {
            write_trace(trace, folder / workload / mode);
            continue;
          }
          nlohmann::json line = compare(trace, read_truth(folder / workload / "truth")).counts;
          line["workload"] = workload;
          line["mode"] = mode;
          say(line);
        } catch (const Refusal& error) {
          refused("record", error);
        }
      }
      current.clear();
      workloads.order({{"order", "remove"}});
    }
    return {};
  } catch (const Error& error) {
    if (current.empty()) throw;
    refused("live on", error);
    return current;
  }
}

void run_workloads(const Settings& settings, const std::filesystem::path& folder) {
  std::vector<std::string> wanted = settings.workloads;
  for (std::string died = run_together(settings, wanted, folder); !died.empty();
       died = run_together(settings, wanted, folder)) {
    std::erase(wanted, died);
    if (wanted.empty()) return;
  }
}

int compare_files(const std::filesystem::path& trace, const std::filesystem::path& truth) {
  const Comparison result = compare(read_trace(trace), read_truth(truth));
  say(result.counts);
  return result.differs ? 1 : 0;
}

int compare_paths(const std::filesystem::path& trace) {
  const PathSums sums = compare_path_sums(read_trace(trace));
  if (sums.differences != 0) fmt::print(stderr, "{}\n", sums.first);
  say({{"paths", sums.paths}, {"path_differences", sums.differences}});
  return sums.differences == 0 ? 0 : 1;
}

std::string problem_of_folder(const std::string& folder) {
  return std::filesystem::is_directory(folder) ? std::string()
                                               : fmt::format("{} is not a folder", folder);
}

/// What the words of the command line set.
struct Chosen {
  Settings settings;
  std::string output;
  std::string trace;
  std::string truth;
  int status = 0;  ///< The exit status, once the command has run.
};

CommandRow program_of(Chosen& chosen) {
  Settings& settings = chosen.settings;
  const OptionRows run_options = {
      {"--python", "PATH", "Runs the workloads", &settings.python, kRequired},
      {"--program", "PATH", "run_workload.py", &settings.program, kRequired},
      {"--workload", "NAME", "What to run", &settings.workloads, kRequired},
      {"--agent", "PATH", "The agent's library", &settings.agent, kRequired},
      {"--stepper", "PATH", "The library single_step", &settings.stepper, kRequired},
      {"--python-events", "", "Also compare Python's calls", &settings.python_events},
      {"--mode", "MODE", "What to record with: int3, jump", &settings.modes,
       AllowedValues(OneOf{{"int3", "jump"}})},
      {"--most-steps", "N", "Of one workload", &settings.most_steps},
      {"--compare", "", "Compare at once, keep no trace", &settings.compare},
      {"-o", "FOLDER", "Folder", &chosen.output,
       OptionExtras{.required = true, .allowed = ProblemOf(problem_of_folder)}}};
  const OptionRows compare_options = {
      {"TRACE", "", "Of one workload", &chosen.trace, kRequired},
      {"TRUTH", "", "What its single steps were", &chosen.truth, kRequired}};
  const OptionRows paths_options = {{"TRACE", "", "With a timeline", &chosen.trace, kRequired}};
  const auto body = [](const OptionRows& options, const std::function<void()>& run) {
    return [options, run] { return CommandBody{options, run}; };
  };
  return {
      .name = "compare_parents",
      .summary = "Holds optrace's call tree against a single-stepped run.",
      .examples = "",
      .commands = {
          {.name = "run",
           .summary = "Single-step workloads, then record them",
           .examples = "",
           .body = body(run_options, [&chosen] { run_workloads(chosen.settings, chosen.output); })},
          {.name = "compare",
           .summary = "Count the wrong parents",
           .examples = "",
           .body = body(compare_options,
                        [&chosen] { chosen.status = compare_files(chosen.trace, chosen.truth); })},
          {.name = "paths",
           .summary = "Compare a timeline's paths and call trees",
           .examples = "",
           .body =
               body(paths_options, [&chosen] { chosen.status = compare_paths(chosen.trace); })}}};
}

int run(int count, char** values) {
  Chosen chosen;
  try {
    run_command_line(program_of(chosen), {values + 1, values + count});
  } catch (const HelpAsked& asked) {
    fmt::print("{}", asked.text());
  } catch (const WrongUsage& wrong) {
    fmt::print(stderr, "compare_parents: {}\nSee compare_parents --help.\n", wrong.what());
    return static_cast<int>(ExitStatus::usage);
  } catch (const Error& error) {
    fmt::print(stderr, "compare_parents: {}\n{}\n", error.what(), error.remedy());
    return static_cast<int>(error.status());
  }
  return chosen.status;
}

}  // namespace
}  // namespace optrace

int main(int count, char** values) {
  try {
    return optrace::run(count, values);
  } catch (const std::exception& error) {
    fmt::print(stderr, "compare_parents: {}\n", error.what());
    return static_cast<int>(optrace::ExitStatus::failed);
  }
}

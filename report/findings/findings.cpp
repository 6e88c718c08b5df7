#include "report/findings/findings.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/core.h>

#include "platform/text/joined.h"
#include "present/readable_numbers.h"
#include "pytorch/names/devices.h"
#include "report/findings/op_tensors.h"
#include "report/findings/process_calls.h"
#include "report/findings/unseen_writes.h"
#include "report/model/frame_name.h"
#include "report/model/frame_time.h"
#include "report/model/op_call.h"
#include "report/model/user_code.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

struct Above {
  std::size_t depth = 0;
  std::size_t user_frame = kNoUserFrame;  // See innermost_user_frame().
  bool in_op = false;
  bool left_out = false;
  std::uint64_t found_by = 0;  // A bit for each rule that found a frame above.
  Pass pass = Pass::forward;
  // Of the frame or the nearest above that not all processes took; null if there is none.
  const ProcessShare* taken_by = nullptr;
};

// Orders findings of a report; the rule is its position in the table, the line 0 if the rule is
// about functions.
using FindingOrder =
    std::tuple<std::size_t, std::string, std::uint32_t, std::string, Pass, std::string>;

struct Group {
  Finding finding;
  std::string what;                                 // See RuleMatch.
  bool of_job = false;                              // Same.
  bool in_ops = true;                               // The cost is time in ops.
  CallsByProcess processes;                         // The finding's calls.
  CallsByDevice devices;                            // The same by device, if each has its own.
  std::map<std::uint32_t, std::uint64_t> lines;     // The same by line.
  std::map<const Frame*, std::uint64_t> functions;  // The program's frames, with their calls.
};

Pass pass_below(const Frame& frame, Pass above) {
  if (frame.detail->node) return Pass::backward;
  return frame.layer == Layer::python && frame.name.starts_with("torch.optim.") ? Pass::optimizer
                                                                                : above;
}

// Returns the time of the outermost ops below a frame.
std::uint64_t time_in_ops(const Frame& frame) {
  std::uint64_t time = 0;
  walk_frames(frame.children, false, [&](const Frame& one, bool counted) {
    const bool counts = !counted && (is_op_call(one) || is_generated_kernel(one));
    if (counts) time += total_time(one);
    return counted || counts || one.detail->node.has_value();
  });
  return time;
}

double sum_of(const CallsByDevice& devices) {
  double sum = 0;
  for (const auto& [device, calls] : devices) sum += calls;
  return sum;
}

// Returns the number of devices besides the CPU that ops work on.
std::size_t count_devices(const Report& report) {
  std::set<std::string> devices;
  walk_frames(report.roots, 0, [&](const Frame& frame, int) {
    for (const OpCalls& calls : op_calls(frame))
      if (std::string device = device_of(calls); !device.empty() && !is_host(device))
        devices.insert(std::move(device));
    return 0;
  });
  return devices.size();
}

class Search {
 public:
  Search(const Report& report, const FindingOptions& options)
      : report_(report),
        options_(options),
        processes_(report),
        facts_{.breaks = find_graph_breaks(report),
               .unused_graphs = find_unused_graphs(report),
               .unread_gradients = find_unread_gradients(report),
               .compilations = report.compilations,
               .devices = count_devices(report),
               .dry_run = report.dry_run.has_value(),
               .unseen_writes = may_have_unseen_writes(report)} {}

  std::vector<Finding> run() {
    walk_frames(report_.roots, Above{},
                [this](const Frame& frame, const Above& above) { return visit(frame, above); });
    std::vector<Finding> findings;
    for (auto& [place, group] : groups_)
      if (group.of_job || holds_in_a_process(group)) findings.push_back(worded(std::move(group)));
    std::ranges::stable_sort(findings, std::greater{},
                             [](const Finding& one) { return std::pair(one.cost_ns, one.calls); });
    return findings;
  }

 private:
  Above visit(const Frame& frame, Above at) {
    stack_.resize(at.depth);
    stack_.push_back(&frame);
    at.depth = stack_.size();
    at.user_frame = innermost_user_frame(stack_, at.user_frame);
    at.left_out = at.left_out || is_setup(frame);
    at.pass = pass_below(frame, at.pass);
    if (!frame.detail->processes.processes.empty()) at.taken_by = &frame.detail->processes;
    const bool is_work = is_op_call(frame) || is_generated_kernel(frame);
    if (is_backward(frame) || (is_work && !at.in_op)) time_in_ops_ += total_time(frame);
    // Code of installed packages is not the program's to change.
    if (at.user_frame != kNoUserFrame && is_program_code(*stack_[at.user_frame]) && !at.left_out)
      evaluate(at);
    at.in_op = at.in_op || is_work || is_backward(frame);
    return at;
  }

  void evaluate(Above& at) {
    const FrameInContext context{.stack = stack_,
                                 .user_frame = at.user_frame,
                                 .in_op = at.in_op,
                                 .processes = processes_.count(at.taken_by),
                                 .facts = facts_};
    const std::span<const FindingRule> rules = finding_rules();
    for (std::size_t i = 0; i < rules.size(); ++i) {
      const std::uint64_t bit = std::uint64_t{1} << i;
      if ((at.found_by & bit) != 0 || options_.ignored.contains(rules[i].name)) continue;
      const std::optional<RuleMatch> match = rules[i].evaluate(context);
      if (!match || match->calls == 0) continue;
      at.found_by |= bit;
      add(i, at, *match);
    }
  }

  void add(std::size_t number, const Above& at, const RuleMatch& match) {
    const FindingRule& rule = finding_rules()[number];
    const Frame& function = *stack_[at.user_frame];
    const std::uint32_t line = calling_line(stack_, at.user_frame);
    const std::string name = function_name(function);
    Group& group =
        groups_[{number, source_at(stack_, at.user_frame)->file, rule.by_function ? 0 : line,
                 match.what, at.pass, rule.by_function ? name : ""}];
    Finding& finding = group.finding;
    if (finding.rule == nullptr) {
      group.what = match.what;
      group.of_job = match.of_job;
      finding.rule = &rule;
      finding.file = source_at(stack_, at.user_frame)->file;
      finding.function = name;
      finding.in_function = &function;
      finding.pass = at.pass;
      finding.reason = match.reason;
      finding.remedy = match.remedy.empty() ? rule.remedy : match.remedy;
      finding.evidence.assign(stack_.begin() + static_cast<std::ptrdiff_t>(at.user_frame) + 1,
                              stack_.end());
      if (finding.evidence.empty()) finding.evidence.push_back(&function);
    }
    finding.calls += match.calls;
    group.lines[line] += match.calls;
    processes_.add(*stack_.back(), at.taken_by, match.calls, group.processes);
    for (const auto& [device, calls] : match.devices) group.devices[device] += calls;
    add_cost(at, match, group);
    group.functions.emplace(&function, function.calls);
  }

  // The times of a dry run are not those of a GPU.
  void add_cost(const Above& at, const RuleMatch& match, Group& group) const {
    if (facts_.dry_run) return;
    const Frame& frame = *stack_.back();
    const bool is_part = at.in_op || is_op_call(frame) || is_generated_kernel(frame);
    const std::uint64_t in_ops = is_part ? total_time(frame) : time_in_ops(frame);
    const bool outside = match.cost ? *match.cost > in_ops : in_ops == 0;
    if (outside) group.in_ops = false;
    group.finding.cost_ns += match.cost ? *match.cost : outside ? total_time(frame) : in_ops;
  }

  // Returns the name in the program, for a function that continues after a graph break too.
  static std::string function_name(const Frame& function) {
    return is_resumed(function) ? function_before_break(function) : frame_name(function);
  }

  // Keeps the devices that have enough calls for the rule, of the calls in `group.devices`. Returns
  // the most calls of one. Of calls for an unknown device, one device of the process has at least
  // an equal part.
  double keep_devices(Group& group) const {
    if (group.devices.empty()) return static_cast<double>(group.finding.calls);
    const auto processes = static_cast<double>(processes_.count(nullptr));
    const double of_each = std::ceil(static_cast<double>(facts_.devices) / processes);
    double most = 0;
    std::erase_if(group.devices, [&](const auto& one) {
      const double calls =
          one.first.empty() ? std::ceil(one.second / std::max(of_each, 1.0)) : one.second;
      most = std::max(most, calls);
      return calls < static_cast<double>(group.finding.rule->least_calls);
    });
    return most;
  }

  // Returns true if the calls of one process for one device are enough for the rule. Keeps those of
  // such processes and devices. Which devices each of several processes used is not known: it had
  // no more calls for one of them than all processes together.
  bool holds_in_a_process(Group& group) const {
    Finding& finding = group.finding;
    const auto all = static_cast<double>(finding.calls);
    const auto least = static_cast<double>(finding.rule->least_calls);
    const double for_devices = sum_of(group.devices);
    const double most = keep_devices(group);
    double found = 0;
    std::size_t processes = 0;
    for (const auto& [process, calls] : group.processes) {
      if (finding.rule->least_calls > 1 && std::min(calls, most) < least) continue;
      found += calls;
      ++processes;
    }
    if (processes == 0) return false;
    if (report_.processes.size() > 1) finding.processes = processes;
    if (finding.rule->least_calls > 1 && for_devices > 0)
      found *= sum_of(group.devices) / for_devices;
    finding.calls = static_cast<std::uint64_t>(std::llround(found));
    finding.cost_ns =
        static_cast<std::uint64_t>(static_cast<double>(finding.cost_ns) * found / all);
    return true;
  }

  Finding worded(Group group) const {
    Finding finding = std::move(group.finding);
    finding.line = std::ranges::max_element(group.lines, {}, [](const auto& one) {
                     return one.second;
                   })->first;
    for (const auto& [line, calls] : group.lines) finding.lines.push_back(line);
    if (group.in_ops && finding.cost_ns != 0 && time_in_ops_ != 0)
      finding.share =
          std::min(1.0, static_cast<double>(finding.cost_ns) / static_cast<double>(time_in_ops_));
    finding.message = message_of(finding, group);
    return finding;
  }

  std::string message_of(const Finding& finding, const Group& group) const {
    std::uint64_t function_calls = 0;
    for (const auto& [frame, calls] : group.functions) function_calls += calls;
    std::string message = fmt::format("`{}` {}", finding.function, group.what);
    std::vector<std::string> devices;
    for (const auto& [device, calls] : group.devices)
      if (!device.empty() && !is_host(device)) devices.push_back(device);
    if (!devices.empty()) message += " on " + joined(devices, " and ");
    if (finding.lines.size() > 1) message += fmt::format(" in {} lines", finding.lines.size());
    if (finding.pass == Pass::backward) message += " in the backward pass";
    if (finding.pass == Pass::optimizer) message += " in the optimizer's step";
    if (finding.calls > 1) message += fmt::format(", {} times", finding.calls);
    const bool is_module = finding.function == "<module>";
    if (finding.calls > function_calls && function_calls > 0 && !is_module)
      message += fmt::format(" in {} of it", counted(function_calls, "call"));
    if (finding.processes != 0)
      message += fmt::format(" in {}", processes_.among_all(finding.processes));
    return message + '.';
  }

  const Report& report_;
  const FindingOptions& options_;
  ProcessCalls processes_;
  ReportFacts facts_;
  std::vector<const Frame*> stack_;
  std::uint64_t time_in_ops_ = 0;
  std::map<FindingOrder, Group> groups_;
};

}  // namespace

std::string_view name_of(Pass pass) {
  return pass == Pass::backward ? "backward" : pass == Pass::optimizer ? "optimizer" : "forward";
}

std::vector<Finding> find(const Report& report, const FindingOptions& options) {
  return Search(report, options).run();
}

}  // namespace optrace

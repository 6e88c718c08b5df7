#include "report/findings/findings.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/core.h>

#include "present/readable_numbers.h"
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
};

// Orders findings of a report; the rule is its position in the table.
using FindingOrder = std::tuple<std::size_t, std::string, std::uint32_t, std::string>;

struct Group {
  Finding finding;
  bool of_job = false;                              // See RuleMatch.
  CallsByProcess processes;                         // The finding's calls.
  std::map<const Frame*, std::uint64_t> functions;  // The program's frames, with their calls.
};

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
               .dry_run = report.dry_run.has_value(),
               .unseen_writes = may_have_unseen_writes(report)} {}

  std::vector<Finding> run() {
    walk_frames(report_.roots, Above{},
                [this](const Frame& frame, const Above& above) { return visit(frame, above); });
    std::vector<Finding> findings;
    for (auto& [place, group] : groups_)
      if (group.of_job || holds_in_a_process(group))
        findings.push_back(worded(std::get<3>(place), std::move(group)));
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
    if (at.user_frame != kNoUserFrame && !at.left_out) evaluate(at);
    at.in_op = at.in_op || is_op_call(frame) || is_backward(frame);
    return at;
  }

  void evaluate(Above& at) {
    const FrameInContext context{.stack = stack_,
                                 .user_frame = at.user_frame,
                                 .in_op = at.in_op,
                                 .processes = processes_.count(stack_),
                                 .facts = facts_};
    const std::span<const FindingRule> rules = finding_rules();
    for (std::size_t i = 0; i < rules.size(); ++i) {
      const std::uint64_t bit = std::uint64_t{1} << i;
      if ((at.found_by & bit) != 0 || options_.ignored.contains(rules[i].name)) continue;
      const std::optional<RuleMatch> match = rules[i].evaluate(context);
      if (!match || match->calls == 0) continue;
      at.found_by |= bit;
      add(i, at.user_frame, *match);
    }
  }

  void add(std::size_t rule, std::size_t user_frame, const RuleMatch& match) {
    const Frame& function = *stack_[user_frame];
    const FrameSource* const source = source_at(stack_, user_frame);
    const std::string file = source == nullptr ? "" : source->file;
    const std::uint32_t line = calling_line(stack_, user_frame);
    Group& group = groups_[{rule, file, line, match.what}];
    Finding& finding = group.finding;
    if (finding.rule == nullptr) {
      finding.rule = &finding_rules()[rule];
      finding.file = file;
      finding.line = line;
      finding.function = function_name(function);
      finding.in_function = &function;
      finding.evidence.assign(stack_.begin() + static_cast<std::ptrdiff_t>(user_frame) + 1,
                              stack_.end());
      if (finding.evidence.empty()) finding.evidence.push_back(&function);
    }
    finding.calls += match.calls;
    group.of_job = match.of_job;
    processes_.add(stack_, match.calls, group.processes);
    // The times of a dry run are not those of a GPU.
    if (!facts_.dry_run) finding.cost_ns += match.cost ? *match.cost : total_time(*stack_.back());
    group.functions.emplace(&function, function.calls);
  }

  // Returns the name in the program, for a function that continues after a graph break too.
  static std::string function_name(const Frame& function) {
    return is_resumed(function) ? function_before_break(function) : frame_name(function);
  }

  // Returns true if the calls of one process are enough for the rule. Keeps those of such
  // processes.
  bool holds_in_a_process(Group& group) const {
    Finding& finding = group.finding;
    const auto all = static_cast<double>(finding.calls);
    const auto least = static_cast<double>(finding.rule->least_calls);
    double found = 0;
    std::size_t processes = 0;
    for (const auto& [process, calls] : group.processes) {
      if (finding.rule->least_calls > 1 && calls < least) continue;
      found += calls;
      ++processes;
    }
    if (processes == 0) return false;
    if (report_.processes.size() > 1) finding.processes = processes;
    finding.calls = static_cast<std::uint64_t>(std::llround(found));
    finding.cost_ns =
        static_cast<std::uint64_t>(static_cast<double>(finding.cost_ns) * found / all);
    return true;
  }

  Finding worded(const std::string& what, Group group) const {
    std::uint64_t function_calls = 0;
    for (const auto& [frame, calls] : group.functions) function_calls += calls;
    Finding finding = std::move(group.finding);
    const std::uint64_t calls = finding.calls;
    finding.message = fmt::format("`{}` {}", finding.function, what);
    if (calls > 1) finding.message += fmt::format(", {} times", calls);
    const bool is_module = finding.function == "<module>";
    if (calls > function_calls && function_calls > 0 && !is_module)
      finding.message += fmt::format(" in {} of it", counted(function_calls, "call"));
    if (finding.processes != 0)
      finding.message += fmt::format(" in {}", processes_.among_all(finding.processes));
    finding.message += '.';
    return finding;
  }

  const Report& report_;
  const FindingOptions& options_;
  ProcessCalls processes_;
  ReportFacts facts_;
  std::vector<const Frame*> stack_;
  std::map<FindingOrder, Group> groups_;
};

}  // namespace

std::vector<Finding> find(const Report& report, const FindingOptions& options) {
  return Search(report, options).run();
}

}  // namespace optrace

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "report/compiled/graph_breaks.h"
#include "report/findings/op_tensors.h"
#include "report/findings/unread_gradients.h"
#include "report/findings/unused_graphs.h"
#include "report/model/report.h"

namespace optrace {

/// What rules need to know of the whole report.
struct ReportFacts {
  GraphBreaks breaks;
  UnusedGraphs unused_graphs;
  std::unordered_map<const Frame*, UnreadGradients> unread_gradients;
  const std::vector<Compilation>& compilations;  ///< WrittenReport::compilations
  std::size_t devices = 0;                       ///< The number besides the CPU.
  bool dry_run = false;                          ///< On an emulated device.
  bool unseen_writes = false;                    ///< See may_have_unseen_writes().
};

/// A frame with the frames above it, as a rule examines it.
struct FrameInContext {
  std::span<const Frame* const> stack;  ///< The frames above it, outermost first, and itself.
  std::size_t user_frame = 0;           ///< Its position, by innermost_user_frame().
  bool in_op = false;                   ///< It is below an op's call or an autograd node.
  std::uint64_t processes = 1;          ///< The number of those that took the path to it.
  const ReportFacts& facts;

  const Frame& frame() const { return *stack.back(); }
  /// The frames below the user's own frame.
  std::span<const Frame* const> below_user_frame() const { return stack.subspan(user_frame + 1); }
};

/// What a rule found in one frame.
struct RuleMatch {
  std::string what;  ///< Continues a sentence that begins with the function's name.
  std::uint64_t calls = 0;
  /// Nanoseconds, if it is not the time in the frame.
  std::optional<std::uint64_t> cost = std::nullopt;
  bool of_job = false;        ///< It is about all processes together, not about each of them.
  std::string reason{};       ///< What sent PyTorch there, if it is known: a clause.
  std::string_view remedy{};  ///< If it is not that of the rule: sentences.
  CallsByDevice devices{};    ///< The calls, if each device has its own; else empty.
};

/// A rule, described in docs/findings.md. All rules are in one table, in finding_rules.cpp.
struct FindingRule {
  std::string_view name;  ///< `implicit-copy`
  std::string_view title;
  std::string_view why;     ///< Why it matters: a sentence.
  std::string_view remedy;  ///< What to do: a sentence.
  /// Number of calls from one place, in one process and for one device, below which nothing is
  /// reported.
  std::uint64_t least_calls = 1;
  /// Returns what the rule finds in a frame.
  std::optional<RuleMatch> (*evaluate)(const FrameInContext& at) = nullptr;
  bool by_function = false;  ///< The place is a function with all of its lines, not one line.
};

std::span<const FindingRule> finding_rules();

}  // namespace optrace

#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "report/findings/finding_rules.h"
#include "report/model/report.h"

namespace optrace {

/// The part of a training step in which something happens. Everything else is `forward`.
enum class Pass : std::uint8_t { forward, backward, optimizer };

/// Returns `forward`, `backward` or `optimizer`.
std::string_view name_of(Pass pass);

/// Something that a rule found at a line of the program's own Python code.
struct Finding {
  const FindingRule* rule = nullptr;
  std::string message;  ///< A sentence.
  std::string file;
  std::uint32_t line = 0;              ///< Of several, the one with the most calls.
  std::vector<std::uint32_t> lines;    ///< All of them, in ascending order.
  std::string function;                ///< The program's function with the line.
  const Frame* in_function = nullptr;  ///< Its first frame.
  Pass pass = Pass::forward;
  std::string reason;       ///< What sent PyTorch there: a clause; empty if it is not known.
  std::string_view remedy;  ///< What to do: sentences.
  /// Time in the ops of the found frames, or in the part of them that is the finding; 0 in a dry
  /// run, without times, and if it is not known.
  std::uint64_t cost_ns = 0;
  /// The part of the time in all ops and autograd nodes that this is; nothing if it is not known,
  /// or if the time is not spent in ops.
  std::optional<double> share;
  std::uint64_t calls = 0;
  /// The number of processes in which the rule holds; the calls and the cost are theirs. 0 if the
  /// report is of one process, or the finding is about all of them together.
  std::size_t processes = 0;
  /// The first of the found frames, with those between it and the program's function.
  std::vector<const Frame*> evidence;
};

struct FindingOptions {
  std::set<std::string, std::less<>> ignored;  ///< Names of rules that are not applied.
};

/// Returns the findings in a report, the most expensive first; without times, those with the most
/// calls. They point into the report. Imports, and the work of torch.compile's compiler, are not
/// examined.
std::vector<Finding> find(const Report& report, const FindingOptions& options = {});

}  // namespace optrace

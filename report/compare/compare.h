#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/model/report.h"
#include "report/output/terminal_text.h"

namespace optrace {

/// One thing in which two reports differ.
struct Difference {
  enum class Kind {
    vanished,  ///< A step that only the first took, with what else only it did below.
    appeared,  ///< One that only the second took.
    changed,   ///< Both took it, and something was decided otherwise.
    count,     ///< Both took it, a different number of times for each time of the frame above.
  };
  Kind kind = Kind::changed;
  std::vector<std::string> path;  ///< The frames' names, outermost first, its own last.
  std::vector<std::string> way;   ///< Those above it that say most: ops and Python functions.
  Layer layer = Layer::runtime;
  std::string what;           ///< changed: the key of detail, or `function`, `template`, `library`.
  std::string before, after;  ///< changed: its values as text; count: the numbers of calls.
  std::size_t frames = 1;     ///< vanished, appeared: how many frames, those below included.
  std::vector<std::string> reaches;  ///< vanished, appeared: library calls and device kernels
                                     ///< below, or else ops.
};

struct Comparison {
  std::vector<Difference> differences;
  /// What differs because one of the two is a dry run, and a dry run can't know it: which engine a
  /// library's heuristics choose, and what a library does inside.
  std::vector<Difference> not_known;
  /// Of different builds only: functions between the steps that one has and the other has not,
  /// because compilers inline otherwise, or they were renamed or moved.
  std::size_t passed_over_first = 0, passed_over_second = 0;
  bool same_build = true;
  /// False where one of the two lacks something (report/model/shortfalls.h): then what differs may
  /// not have been recorded, and a difference may be one of what was recorded only.
  bool conclusive = true;
  /// Frames of dry runs in which the host read values that nobody had computed.
  std::size_t emulated_reads = 0;
};

struct CompareOptions {
  /// Lists what lies between the steps even where the two are of different builds of PyTorch.
  bool all = false;
};

/// What differs between two reports, in the order of their trees. Frames are matched by what they
/// are, not by lines or addresses: by layer and op or name without template arguments, below frames
/// that match. What has no fellow is looked through, so that a step is found again below a function
/// that is new, gone or renamed. Between builds of PyTorch only the steps are compared: ops, their
/// kernels, autograd's nodes, library calls, device kernels and the program's own functions.
Comparison compare(const Report& first, const Report& second, const CompareOptions& options = {});

/// For people: a line for each difference, with the way to it; what is the same at several places
/// stands there once. `labels`: what the two are called, the first's and the second's.
struct ComparisonLabels {
  std::string first, second;
};
std::string comparison_to_text(const Report& first, const Report& second,
                               const Comparison& comparison, const ComparisonLabels& labels,
                               const TerminalStyle& style);

/// For programs: schema optrace.comparison/1.
std::string comparison_to_json(const Report& first, const Report& second,
                               const Comparison& comparison);

}  // namespace optrace

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/model/report.h"
#include "report/output/terminal_text.h"

namespace optrace {

/// One difference between two reports.
struct Difference {
  enum class Kind {
    vanished,  ///< Only the first has this step, with the steps below it that only the first has.
    appeared,  ///< Only the second has this step, likewise.
    changed,   ///< Both have this step, with a different decision.
    count,     ///< Both have this step, with another number of calls per call of the frame above.
  };
  Kind kind = Kind::changed;
  std::vector<std::string> path;  ///< The frames' names, outermost first, ending with its own.
  std::vector<std::string> way;   ///< The ops and Python functions among them, above it.
  Layer layer = Layer::runtime;
  std::string what;           ///< `changed`: key of detail, or `function`, `template`, `library`.
  std::string before, after;  ///< `changed`: values as text. `count`: numbers of calls.
  std::size_t frames = 1;     ///< `vanished`, `appeared`: number of frames, those below included.
  /// `vanished`, `appeared`: library calls and device kernels below, or ops if there are none.
  std::vector<std::string> reaches;
};

struct Comparison {
  std::vector<Difference> differences;
  /// Differences that a dry run can't determine, if one of the reports is of one: the engine that a
  /// library's heuristics choose, and the calls inside of a library.
  std::vector<Difference> not_known;
  /// Only for different builds: number of functions between the steps that only one report has,
  /// because they were inlined, renamed or moved.
  std::size_t passed_over_first = 0, passed_over_second = 0;
  bool same_build = true;
  /// False if one of the reports is incomplete (report/model/shortfalls.h): some differences may
  /// not have been recorded, and others may come from missing data.
  bool conclusive = true;
  /// Number of frames of dry runs in which the host read values that were not computed.
  std::size_t emulated_reads = 0;
};

struct CompareOptions {
  /// Also list frames between the steps if the reports are of different builds of PyTorch.
  bool all = false;
};

/// Compares two reports, in the order of their trees. Frames are matched by layer and by op or name
/// without template arguments, below frames that match; lines and addresses are ignored. The search
/// continues below a frame without a match, so a step is also found below a function that is new,
/// gone or renamed. For different builds of PyTorch, only the steps are compared: ops, their
/// kernels, autograd nodes, library calls, device kernels and the program's own functions.
Comparison compare(const Report& first, const Report& second, const CompareOptions& options = {});

/// The names of the two reports in the text.
struct ComparisonLabels {
  std::string first, second;
};
/// For people: a line for each difference, with the path to it. Equal differences at several places
/// are listed once.
std::string comparison_to_text(const Report& first, const Report& second,
                               const Comparison& comparison, const ComparisonLabels& labels,
                               const TerminalStyle& style);

/// For programs: schema optrace.comparison/1.
std::string comparison_to_json(const Report& first, const Report& second,
                               const Comparison& comparison);

}  // namespace optrace

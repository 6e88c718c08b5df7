#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "report/compare/fused_line_changes.h"
#include "report/model/report_reader.h"

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
  const Frame* frame = nullptr;    ///< In the first report; in the second if only that has it.
  std::vector<std::string> path;   ///< The frames' names, outermost first, ending with its own.
  std::vector<std::string> stack;  ///< The ops and Python functions among them, above it.
  Layer layer = Layer::runtime;
  std::string what;           ///< `changed`: key of detail, or `function`, `template`, `library`.
  std::string before, after;  ///< `changed`: values as text. `count`: numbers of calls.
  std::size_t frames = 1;     ///< `vanished`, `appeared`: number of frames, those below included.
  /// `vanished`, `appeared`: library calls and device kernels below, or ops if there are none.
  std::vector<std::string> reaches;
};

/// Returns the name used in the output: "vanished", "appeared", ...
constexpr std::string_view name_of(Difference::Kind kind) {
  constexpr std::array<std::string_view, 4> kNames = {"vanished", "appeared", "changed", "count"};
  return kNames[static_cast<std::size_t>(kind)];
}

/// The differences between two reports.
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
  /// What the program's lines lead to, where torch.compile fused their ops in one of the reports.
  std::vector<FusedLineChange> fused_lines;
  /// Number of frames of dry runs in which the host read values that were not computed.
  std::size_t emulated_reads = 0;
};

}  // namespace optrace

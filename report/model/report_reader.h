#pragma once

// The contents of a report's JSON, and its reader. This header is installed as
// <optrace/report_reader.h> with the CMake target optrace::reader, so it is C++17 and depends only
// on headers that are installed beside it.

#include <cstdint>
#include <istream>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "report/model/compilation.h"
#include "report/model/frame.h"
#include "tracer/trace/recorded_run.h"

namespace optrace {

/// Something that is missing from a report, so that its counts may be too low or in the wrong
/// place: `events_lost`, `paths_merged`, ... docs/report-format.md lists the kinds.
struct Shortfall {
  std::string kind;
  std::uint64_t count = 1;  ///< In the unit of the kind; 1 if it is not counted.
};

/// Numbers of calls by the names of functions.
using CallsByName = std::map<std::string, std::uint64_t>;

struct WrittenReport {
  TorchBuild torch;
  std::string device;                     ///< `cpu` or `cuda`.
  std::optional<RecordedSteps> steps;     ///< If not all were to be recorded.
  std::vector<Compilation> compilations;  ///< What torch.compile compiled, in order.
  std::optional<EmulatedDevice> dry_run;
  std::string source_version;      ///< PyTorch version of the index; empty without one.
  bool source_of_torch = false;    ///< The index is of the traced torch.
  bool source_from_wheel = false;  ///< The index was made from a wheel rather than from source.
  bool source_exact = false;       ///< The index is of the traced torch, and all lines are exact.
  std::vector<ReportProcess> processes;  ///< Those combined in this report; empty for one.
  std::vector<Shortfall> shortfalls;     ///< Each kind once; empty if none is known.
  /// The calls of each Python function whose frames have another number: they lack the calls that
  /// led to nothing, and have each resumption of a generator. Nothing if calls were not counted.
  std::optional<CallsByName> python_calls;
  std::vector<Frame> roots;
};

/// Thrown for a text that is not a report. what() has the reason: "its schema is optrace.report/2,
/// ...".
class ReportError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reads schema optrace.report/1, written by any version of optrace. Unknown keys are ignored, and
/// missing keys leave the defaults above. All input is untrusted. Throws ReportError for a text
/// that is not such a report or is larger than a GiB.
WrittenReport parse_report(std::string_view json);
/// Same, for the whole contents of a stream.
WrittenReport parse_report(std::istream& stream);

}  // namespace optrace

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/details/call_detail.h"
#include "report/merge/call_lines.h"
#include "report/merge/report_path.h"
#include "report/merge/traced_functions.h"
#include "report/model/report.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Adds the recorded library calls and device work of paths to their frames, and makes the frames
/// of kernels and of called functions that have no entry in the trace.
class LibraryCalls {
 public:
  /// All arguments must outlive the object. `call_lines` may be null. `times`: kernels have times.
  LibraryCalls(const Trace& trace, TracedFunctions& functions, const CallDetails& calls,
               CallLines* call_lines, bool times)
      : trace_(trace),
        functions_(functions),
        calls_(calls),
        call_lines_(call_lines),
        times_(times) {}

  /// Adds the library calls of the path and of the paths folded into it to `detail`, and the
  /// kernels that they launched to the frame's children. `order` gets the trace's path of each
  /// child added.
  void add_calls(const ReportPath& path, Frame& frame, Detail& detail,
                 std::vector<std::uint32_t>& order) const;

  /// Adds the work that devices did for the path and for the paths folded into it. `order` gets the
  /// trace's path of each child added.
  void add_work(const ReportPath& path, Frame& frame, std::vector<std::uint32_t>& order) const;

  /// Moves library calls from a frame, whose children must be complete, to the frames of the called
  /// functions. A library call is recorded before the library's function is entered, and thus
  /// attributed to the caller. If exactly one child frame is of the called function, the record
  /// moves there. If none is, it moves to a new frame, so that every library call has a frame.
  /// Returns true if the frame had library calls.
  bool assign_calls_to_callees(const ReportPath& path, Frame& frame);

 private:
  void add_kernel_frames(std::vector<CallDetails::Kernel> kernels,
                         const std::vector<std::uint32_t>& of, Frame& frame,
                         std::vector<std::uint32_t>& order) const;
  Frame make_kernel_frame(CallDetails::Kernel kernel) const;
  Frame make_called_frame(const ReportPath& path, const Frame& caller, const std::string& name);

  const Trace& trace_;
  TracedFunctions& functions_;
  const CallDetails& calls_;
  CallLines* const call_lines_;
  const bool times_;
};

/// Sets the line that calls a frame, the first of `lines`, which must not be empty.
void set_call_line(const std::vector<SourceLocation>& lines, const TracedFunctions& functions,
                   Frame& frame);

}  // namespace optrace

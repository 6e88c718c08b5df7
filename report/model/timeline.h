#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "pytorch/values/library_call.h"

namespace optrace {

/// The calls of one process in the order of time, for the formats that show them one by one. Times
/// are nanoseconds since the start of the trace's times.
struct Timeline {
  /// A call of a frame, from its entry until something outside of it was recorded.
  struct Call {
    std::uint32_t frame = 0;  ///< Frame::number; 0: the report shows no frame for it.
    std::uint64_t start = 0;
    std::uint64_t end = 0;
  };

  struct Thread {
    std::uint64_t id = 0;     ///< From gettid.
    std::vector<Call> calls;  ///< By start, callers before what they call; they nest strictly.
  };

  /// A kind of work of a device: a kernel with its grid, a copy.
  struct WorkKind {
    std::string name;
    /// The kernel's launch, or the copy or fill.
    std::variant<Launch, LibraryCall> details;
  };

  struct Work {
    std::uint32_t kind = 0;  ///< Index into work_kinds.
    std::uint64_t start = 0;
    std::uint64_t end = 0;
  };

  /// Work of a stream. Work that ran at the same time, such as nodes of a CUDA graph, is on several
  /// lanes, so that the works of one lane don't overlap.
  struct StreamLane {
    std::uint64_t device = 0;
    std::uint64_t stream = 0;
    std::uint32_t number = 0;  ///< Of the stream's lanes, from 0.
    std::vector<Work> works;   ///< By start.
  };

  /// A moment of a thread, or the start of a work.
  struct Moment {
    std::uint32_t track = 0;  ///< Index into threads or lanes.
    std::uint64_t time = 0;
  };

  /// What leads to what: a launch to its work on a lane, or a forward op to its autograd node.
  struct Arrow {
    Moment from;  ///< Of a thread.
    Moment to;
  };

  std::uint64_t process = 0;          ///< Its id, or that of its first thread; 0 if unknown.
  std::optional<std::uint64_t> rank;  ///< In a torchrun job.
  std::uint64_t start_unix_ns = 0;    ///< The Unix time at which times start; 0 if unknown.
  std::vector<Thread> threads;
  std::vector<WorkKind> work_kinds;
  std::vector<StreamLane> lanes;
  std::vector<Arrow> launches;
  std::vector<Arrow> backwards;
};

}  // namespace optrace

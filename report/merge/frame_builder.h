#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "indexer/store/index_store.h"
#include "indexer/store/source_link.h"
#include "report/details/call_detail.h"
#include "report/merge/frame_processes.h"
#include "report/merge/report_path.h"
#include "report/merge/traced_functions.h"
#include "report/model/report.h"
#include "tracer/trace/op_record.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// The data that frames are made from, besides their paths.
struct FrameSources {
  const Trace& trace;
  const Index* index;  ///< May be null.
  TracedFunctions& functions;
  const OpRecords& records;
  const CallDetails& calls;
  SourceLink python_links;
  bool times = false;                   ///< Frames have the duration of their paths.
  FrameProcesses* processes = nullptr;  ///< Of a merged trace.
};

/// Returns Frame::number of the frame of `paths[i]`.
constexpr std::uint32_t frame_number(std::size_t i) {
  return static_cast<std::uint32_t>(i) + 1;
}

/// Returns the frames of the paths, the children of each in the order of their first calls. Throws
/// Error(usage) if the trace or the index is corrupt.
std::vector<Frame> build_frames(const FrameSources& from, const ReportPathSet& paths);

}  // namespace optrace

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "indexer/store/source_link.h"
#include "platform/elf/debug_info.h"
#include "pytorch/functions/layers.h"
#include "report/model/report.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// A function that the compiler inlined into its caller.
struct InlinedFrame {
  std::string name;    ///< Qualified.
  std::string symbol;  ///< Mangled; empty if it has internal linkage.
  std::string library;
  Classification classification;
  std::optional<FrameSource> source;
};

/// Reads the sources of a trace's functions and calls from the debug info of their modules, for
/// those that have any. Each module is opened when one of its functions is first asked for, and
/// only if it is still the build that was traced.
class DebugLines {
 public:
  /// `trace` must outlive the object.
  explicit DebugLines(const Trace& trace);

  /// Returns the definition of a function, an index into the trace's functions.
  std::optional<FrameSource> definition_of(std::uint32_t function);

  /// A call in the source.
  struct Call {
    /// The inlined functions through which it is made, outermost first, each with the line at which
    /// the one before it calls it; 0 if unknown.
    std::vector<std::pair<std::uint32_t, std::uint32_t>> inlined;
    std::uint32_t line = 0;  ///< In the innermost function; 0 if unknown.
  };

  /// Returns the call that a native function, the parent of a path, makes at the path's
  /// TracePath::call_offset.
  const Call& call_at(std::uint32_t function, std::uint32_t call_offset);

  /// Returns the inlined function with a number from Call::inlined.
  const InlinedFrame& inlined(std::uint32_t number) const { return inlined_[number]; }

 private:
  DebugInfo* info_of(std::uint32_t function);
  std::uint32_t number_of(const InlinedFunction& function, const TraceFunction& caller);
  FrameSource source_of(const DebugPlace& place, const TraceFunction& function) const;

  const Trace& trace_;
  const std::string torch_folder_;
  const SourceLink links_;
  /// By module; null: no debug info.
  std::map<std::uint32_t, std::unique_ptr<DebugInfo>> modules_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Call> calls_;
  std::vector<InlinedFrame> inlined_;
  std::map<std::tuple<std::uint32_t, std::string, std::string, std::uint32_t>, std::uint32_t>
      numbers_;
};

}  // namespace optrace

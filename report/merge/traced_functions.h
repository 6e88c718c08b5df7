#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/store/index_store.h"
#include "indexer/store/source_link.h"
#include "lookup/decisions/decision_functions.h"
#include "pytorch/functions/dispatcher_steps.h"
#include "pytorch/functions/layers.h"
#include "report/compiled/generated_code.h"
#include "report/merge/call_lines.h"
#include "report/merge/debug_lines.h"
#include "report/model/report.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// The entry point of oneDNN that runs a primitive.
inline constexpr std::string_view kOneDnnEntry = "dnnl_primitive_execute";

/// The properties that all frames of a native function have in common.
struct FunctionFacts {
  std::string name;  ///< Qualified; `library.so+0x12` without a symbol.
  Classification classification;
  bool emulated = false;               ///< In an emulated library that replaced one of CUDA's.
  std::optional<std::string> library;  ///< File name.
  std::optional<DispatcherStep> step;  ///< Views into `name`.
  std::optional<std::string> op;       ///< Only for a dispatcher step.
  std::optional<FrameSource> source;
  IndexedFunction indexed;
  std::optional<ResultType> result;  ///< Of a function in the index of the traced torch.
  /// Decisions in the source of a function that returns an enumeration of what to do.
  std::vector<CalledDecision> decisions;
  const std::vector<Origin>* origins = nullptr;  ///< Of a generated kernel, if they are its own.
};

/// Describes the native functions of a trace, each when it is first asked for.
class TracedFunctions {
 public:
  /// The trace and the index, which may be null, must outlive the object. `links` are for the
  /// index's source. `of_torch`: the index is of the traced torch.
  TracedFunctions(const Trace& trace, const Index* index, SourceLink links, bool of_torch);

  /// `function` is an index into the trace's functions.
  const FunctionFacts& operator[](std::uint32_t function);

  /// Returns the definition of a native function, if the index has it.
  std::optional<FrameSource> definition_of(const IndexedFunction& function) const;

  /// Returns a place in the index's source, with its link.
  FrameSource source_at(const SourceLocation& location) const;

  /// Returns the state of a line of the index: nothing if it is exact for the traced torch, or
  /// unknown.
  std::optional<LineInterval> approximation_of(const SourceLocation& location) const;

  const GeneratedCode& generated_code() const { return generated_; }
  DebugLines& debug_lines() { return debug_lines_; }

  // For kNone, the following return false.

  /// Returns true for a dispatcher step that enters any op, given as an argument.
  bool is_boxed_call(std::uint32_t function);
  /// Same, for a step that hands an op on to the next dispatch key.
  bool is_boxed_redispatch(std::uint32_t function);
  /// Returns true for a function of the dispatcher itself (FunctionRole::forwards_op).
  bool forwards_op(std::uint32_t function) const;

 private:
  std::unique_ptr<FunctionFacts> describe(std::uint32_t number);
  /// Returns the kernel that Inductor generated with this function; null for other functions.
  const GeneratedCode::Kernel* generated_kernel(const TraceFunction& function) const;
  bool is_emulated(const std::optional<std::string>& library) const;
  std::optional<std::string> op_of(std::string_view unambiguous_name) const;
  const DispatcherStep* boxed_step(std::uint32_t function);

  const Trace& trace_;
  const Index* index_;
  const SourceLink links_;
  const bool of_torch_;
  const GeneratedCode generated_;
  DebugLines debug_lines_;
  std::vector<std::unique_ptr<FunctionFacts>> facts_;  // By function; null until asked for.
};

}  // namespace optrace

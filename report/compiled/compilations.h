#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/compiled/generated_code.h"
#include "report/model/compilation.h"
#include "tracer/trace/trace_meta.h"

namespace optrace {

/// Returns the compilations in the metadata of a trace (`compilations`, docs/trace-format.md),
/// which is untrusted: what is invalid is skipped.
std::vector<Compilation> recorded_compilations(const TraceMeta& meta);

/// Returns what torch.compile compiled, from the metadata of a trace. Paths below torch's folder
/// are relative to it, as those of frames are. `generated` is the code that Inductor generated for
/// it.
std::vector<Compilation> describe_compilations(const TraceMeta& meta,
                                               const GeneratedCode& generated);

/// A call in the program.
struct CallPlace {
  std::string_view file{};
  std::uint32_t line = 0;
  std::string_view function{};  ///< The one that makes the call, without the names around it.
  std::uint32_t function_line = 0;
};

/// Returns the IDs of the compilations that a call at this line began.
std::vector<std::string> compilations_at(const std::vector<Compilation>& compilations,
                                         const CallPlace& place);

/// Returns the IDs of the compilations whose backward graphs a frame below this call may compile:
/// those of the function, which then runs its compiled code, or else those that the call began.
std::vector<std::string> backward_compilations_at(const std::vector<Compilation>& compilations,
                                                  const CallPlace& place);

/// IDs of compilations, by the graph that is meant.
struct CompilationIds {
  std::vector<std::string> forward;
  std::vector<std::string> backward;
};

/// Returns the compilations that have generated a file.
CompilationIds compilations_of_file(const std::vector<Compilation>& compilations,
                                    std::string_view file);

/// Returns PyTorch's reason for a graph break at a line; empty if none is known.
std::string graph_break_reason(const std::vector<Compilation>& compilations, std::string_view file,
                               std::uint32_t line);

/// Returns why a function that is defined at a line runs uncompiled, as far as its compilations
/// tell: the break in the last one, for PyTorch gives a function up if the break is in a loop or a
/// `with`, or how often guards failed, for it gives a function up after some times. Empty if
/// neither.
std::string reason_not_compiled(const std::vector<Compilation>& compilations, std::string_view file,
                                std::uint32_t line);

/// Returns the guard that failed before a function was compiled for the last time, and the values
/// that it met, as PyTorch words them; empty if that is unknown.
std::string failed_guard(const std::vector<Compilation>& compilations, std::string_view function);

}  // namespace optrace

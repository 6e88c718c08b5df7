#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/store/index_store.h"
#include "lookup/calls/call_graph.h"
#include "lookup/locate/source_indexes.h"

namespace optrace {

/// The kind of a step on a static path.
enum class StepKind : std::uint8_t {
  op,             ///< A call of an op. The next step is its kernel for the device.
  function,       ///< A function of PyTorch.
  stub,           ///< A DispatchStub. The next step is the kernel registered for it.
  device_kernel,  ///< A launch of a device kernel.
  library,        ///< A call of another library's function.
};

/// Returns the name used in JSON: `op`, `function`, `stub`, `device kernel`, `library`.
std::string_view name_of(StepKind kind);

struct PathStep {
  StepKind kind = StepKind::function;
  std::string symbol;       ///< Canonical symbol; empty for an op.
  std::string op;           ///< `aten::convolution`; only for an op.
  std::string note;         ///< Dispatch key of an op's kernel, or CPU capabilities of a stub's.
  SourceLocation location;  ///< Location of the definition; without a file if unknown.
  std::uint32_t call_line = 0;  ///< Line in the file of the previous step; 0 for the first step.
  std::optional<LineInterval> call_approximate{};  ///< Of call_line.
  bool detour = false;  ///< Only for an op: it is not related to the requested op.
};

/// A path of calls from an op to a library call or kernel, its last step.
struct StaticPath {
  std::vector<PathStep> steps;
  std::string_view library;  ///< `cuDNN`; empty if the path ends in a kernel of PyTorch.
  bool bookkeeping = false;  ///< Ends in a call that does no computing: `cudnnSetStream`.
  std::string stopped;       ///< Why the path stops early; empty if it does not.
  bool has_kernel = true;    ///< False if it stops at an op without a kernel for the device.
  bool named = false;        ///< Ends in a kernel whose name contains the op's name.
  /// Number of steps to ops and files that are not related to the op's name.
  unsigned detours = 0;
  /// Cost of the words in its names that the op's name lacks (`transpose`, `sparse`); 0 if there
  /// are none.
  unsigned variants = 0;
};

/// An op that a function calls, and the line in that function that leads to the call.
struct CalledOp {
  std::string name;  ///< `aten::convolution_backward`
  std::uint32_t line = 0;
  bool housekeeping = false;  ///< Creates, copies or inspects a tensor rather than computing.
  std::optional<LineInterval> approximate{};  ///< Of the line.
};

/// Finds the possible call paths of an op from the source alone: from dispatch tables, call sites,
/// and the kernels registered for stubs. The arguments determine which path a call takes.
class StaticPaths {
 public:
  /// `index` is copied; the indexes that it refers to must outlive the object.
  explicit StaticPaths(const SourceIndexes& index) : graph_(index) {}

  /// Returns the shortest path to each library function, device kernel and stub's kernel that `op`
  /// can reach on a device, given by its dispatch key (`CPU`, `CUDA`), the likeliest first. Paths
  /// through ops and files related to the op's name come before others, libraries before kernels,
  /// short paths before long ones. A path also ends at an op related to the op's name below which
  /// nothing is known; `stopped` has the reason.
  /// Checks, tensor iterators' internals, and ops that only create or copy tensors are not
  /// followed. The latter are followed if the op itself is one of them, or reaches nothing else.
  std::vector<StaticPath> find(std::string_view op, std::string_view key);

  /// Returns the first op on every path out of a function, by line, with housekeeping ops last.
  std::vector<CalledOp> ops_called(std::string_view symbol);

  static constexpr std::size_t kMaxVisited = 1000;  ///< Functions and ops per search.

 private:
  CallGraph graph_;
};

}  // namespace optrace

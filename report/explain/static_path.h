#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "indexer/store/index_store.h"
#include "report/explain/dispatch_table.h"
#include "report/locate/source_indexes.h"

namespace optrace {

/// What a step of a static path is.
enum class StepKind : std::uint8_t {
  op,             ///< An op is called: what follows is its kernel for the device.
  function,       ///< A function of PyTorch's.
  stub,           ///< A DispatchStub: what follows is the kernel registered for it.
  device_kernel,  ///< A launch.
  library,        ///< A call of another library's function.
};

/// As the JSON has them: `op`, `function`, `stub`, `device kernel`, `library`.
std::string_view name_of(StepKind kind);

struct PathStep {
  StepKind kind = StepKind::function;
  std::string symbol;  ///< Canonical; empty for an op.
  std::string op;      ///< `aten::convolution`; only for an op.
  std::string note;    ///< The dispatch key of an op's kernel, the CPU capabilities of a stub's.
  SourceLocation location;      ///< Of the definition; without file if that is unknown.
  std::uint32_t call_line = 0;  ///< In the file of the step before; 0 for the first.
  bool detour = false;          ///< Of an op: it is about something else than the one asked for.
};

/// A way down from an op, the end of it last.
struct StaticPath {
  std::vector<PathStep> steps;
  std::string_view library;  ///< `cuDNN`; empty where it ends in a kernel of PyTorch's own.
  bool bookkeeping = false;  ///< Ends in a call that does no computing: `cudnnSetStream`.
  std::string stopped;       ///< Why it ends where it does; empty if in a library call or a kernel.
  bool has_kernel = true;    ///< False where it stops at an op that has no kernel for the device.
  bool named = false;        ///< Ends in a kernel that has the op's name in its own.
  /// How often it leaves what the op is about: ops and files of another name.
  unsigned detours = 0;
  /// What its names add that the op's lacks (`transpose`, `sparse`), as a cost; 0 if nothing.
  unsigned variants = 0;
};

/// An op that a function calls, with the line in that function that leads there.
struct CalledOp {
  std::string name;  ///< `aten::convolution_backward`
  std::uint32_t line = 0;
  bool housekeeping = false;  ///< Makes, copies or looks at a tensor rather than computing.
};

/// Finds what an op can lead to, from the source alone: kernels by the dispatch tables, call sites,
/// stubs by what is registered for them. What really runs depends on the arguments; a path is a
/// possibility.
class StaticPaths {
 public:
  /// `index` is copied; what it refers to must outlive the object.
  explicit StaticPaths(const SourceIndexes& index);

  /// The shortest path to each library function, device kernel and stub's kernel that `op` can
  /// reach on a device, given by its dispatch key (`CPU`, `CUDA`), the likeliest first: those that
  /// stay with ops and files of the op's own name, libraries before kernels, near before far. An op
  /// of such a name below which nothing is known is an end too, and says why.
  /// Checks, tensor iterators' plumbing and ops that only make or copy tensors are not followed;
  /// the latter are where the op itself is one of them, or reaches nothing else.
  std::vector<StaticPath> find(std::string_view op, std::string_view key);

  /// The first ops on every way out of a function, by line.
  std::vector<CalledOp> ops_called(std::string_view symbol);

  /// The op that `at::_ops::X::call` or `redispatch` calls; empty if the symbol is another's.
  std::string op_of(std::string_view symbol) const;

  static constexpr std::size_t kMaxVisited = 1000;  ///< Functions and ops, for one search.

 private:
  struct Search;

  const DispatchTable& table(const std::string& op);

  SourceIndexes index_;
  std::vector<Registration> fallbacks_;
  std::map<std::string, DispatchTable, std::less<>> tables_;
};

/// True for ops that make, copy or look at tensors on the way to what was asked for: `empty_like`,
/// `contiguous`, `copy_`.
bool is_housekeeping_op(std::string_view name);

}  // namespace optrace

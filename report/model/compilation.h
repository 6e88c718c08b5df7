#pragma once

// What torch.compile compiled: the keys of `compilations` in a report's JSON. C++17, because the
// reader library that other programs link includes it.

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "report/model/detail.h"

namespace optrace {

/// A line of a file. `line` is 0 if it is unknown.
struct CodePlace {
  std::string file;  ///< Relative to torch's folder, or absolute.
  std::uint32_t line = 0;

  auto fields() const { return std::tie(file, line); }
};

/// A kernel of a file that Inductor generated.
struct GeneratedKernel {
  std::string name;                 ///< By which the generated Python file calls the kernel.
  std::string file;                 ///< The generated file.
  std::optional<CodePlace> source;  ///< Where the kernel is defined, if that is known.
  /// The nodes of the graph that were fused into it, in the graph's order; empty if unknown.
  std::vector<Origin> origins;

  auto fields() const { return std::tie(name, file, source, origins); }
};

/// Two kernels of a graph, of which one uses a result of the other, that were not fused.
struct NotFused {
  std::string producer, consumer;  ///< Names of kernels.
  bool is_extern = false;          ///< One of them is a library's function or an op.
  std::string reason;              ///< As Inductor words it; empty if it recorded none.

  auto fields() const { return std::tie(producer, consumer, is_extern, reason); }
};

/// A graph, forward or backward. Times are nanoseconds, 0 if they are unknown; each is a part of
/// the one before.
struct CompiledGraph {
  std::uint64_t time = 0;          ///< Of the whole compilation.
  std::uint64_t backend_time = 0;  ///< With AOTAutograd.
  std::uint64_t inductor_time = 0;
  std::uint64_t code_generation_time = 0;  ///< Generating and loading code.
  std::uint64_t compiler_time = 0;         ///< Waiting for the C++ compiler and Triton.
  std::optional<CodePlace> called_from;    ///< The program's line that began the compilation.
  std::vector<std::string> generated;      ///< Files.
  std::vector<GeneratedKernel> kernels;    ///< Of these files.
  std::vector<NotFused> not_fused;

  auto fields() const {
    return std::tie(time, backend_time, inductor_time, code_generation_time, compiler_time,
                    called_from, generated, kernels, not_fused);
  }
};

/// A place at which Dynamo ended a graph.
struct GraphBreak {
  std::string file;  ///< Empty if unknown.
  std::uint32_t line = 0;
  std::string reason;

  auto fields() const { return std::tie(file, line, reason); }
};

/// A compilation of a function.
struct Compilation {
  std::string id;        ///< PyTorch's compile ID: `0/1`.
  std::string function;  ///< Name of the compiled code.
  std::string file;      ///< Relative to torch's folder, or absolute.
  std::uint32_t line = 0;
  CompiledGraph forward;
  std::optional<CompiledGraph> backward;  ///< It may be compiled later.
  std::uint64_t graph_ops = 0;            ///< Number of calls in the graph; 0 if unknown.
  std::string cache;    ///< What Inductor's cache answered: `hit`, `miss` or `bypass`.
  std::string failure;  ///< The error that ended the compilation.
  /// PyTorch refused to compile the function once more after this.
  bool recompile_limit = false;
  std::vector<std::string> recompile_reasons;  ///< The guards that failed.
  std::vector<GraphBreak> breaks;

  auto fields() const {
    return std::tie(id, function, file, line, forward, backward, graph_ops, cache, failure,
                    recompile_limit, recompile_reasons, breaks);
  }
};

}  // namespace optrace

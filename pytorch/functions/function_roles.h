#pragma once

#include <cstdint>
#include <string_view>

namespace optrace {

/// The role of a function in the call tree, derived from its (mangled) name alone.
struct FunctionRole {
  /// CPython's evaluation loop, whose frame stands for Python frames.
  bool evaluation_loop = false;
  bool runs_nodes = false;    ///< The function in which autograd's engine runs a node.
  bool opens_region = false;  ///< OpenMP: runs a function on several threads.
  bool region_body = false;   ///< OpenMP: the function that such a region runs.
  /// GNU's OpenMP: opens a region and takes the function to run and a pointer to the threads'
  /// shared data as its first two parameters, or is such a function, whose only parameter is that
  /// pointer.
  bool region_data = false;
  bool op_call = false;        ///< A dispatcher step that starts the call of an op.
  bool op_redispatch = false;  ///< A dispatcher step that hands an op on to the next dispatch key.
  /// A function of the dispatcher itself. Calls of ops pass through it, with or without a step
  /// around it.
  bool forwards_op = false;
  /// Steps of a single op only: its unambiguous name, `add_Tensor`. A view into the symbol.
  std::string_view op;
};

/// Returns true for CPython's evaluation loop and the parts that the compiler split off from it.
bool is_evaluation_loop(std::string_view symbol);

FunctionRole role_of(std::string_view symbol);

/// Returns true for the functions that open OpenMP regions, as GCC and Clang compile them, and for
/// those that the threads of a region run.
bool is_of_openmp_region(std::string_view symbol);

/// The role of a function in the call of an op.
enum class OpStep : std::uint8_t {
  none,
  passed,    ///< A function of the dispatcher, for any op.
  of_it,     ///< A step of at::_ops that enters this op.
  of_other,  ///< A step that enters another op, or one chosen at run time.
};

/// Returns the role of a function in a call of the op with this name (`aten::add.Tensor`), or of
/// any op if `op` is empty.
OpStep step_of(const FunctionRole& role, std::string_view op);

/// Returns `f` for `f.cold` and `f.cold.7`, where GCC puts the unlikely paths of `f` (code without
/// an entry). Returns other symbols unchanged.
std::string_view without_cold_suffix(std::string_view symbol);

/// Returns true if threads begin in this function of the file at `path`: a function of glibc,
/// libstdc++ or OpenMP. Distributions strip glibc's names of these.
bool begins_threads(std::string_view symbol, std::string_view path);

/// Returns true if the file is a library of optrace in the traced process: an agent or the emulated
/// device. The calls of its functions are known, so they need no probes.
bool is_own_library(std::string_view path);

}  // namespace optrace

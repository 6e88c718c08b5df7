#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace optrace {

/// What a function is to the call tree, by its (mangled) name alone.
struct FunctionRole {
  bool evaluation_loop = false;  ///< CPython's, whose frame stands for Python frames.
  bool runs_nodes = false;       ///< Where autograd's engine runs a node.
  bool opens_region = false;     ///< OpenMP's: has a function run by several threads.
  bool region_body = false;      ///< What such a region runs.
  /// GNU's: it opens a region with the function to run and a pointer to what its threads share as
  /// the first two parameters, or it is such a function, whose only parameter that pointer is.
  bool region_data = false;
  bool op_call = false;        ///< A dispatcher step that enters an op anew.
  bool op_redispatch = false;  ///< ... that hands it on to the next dispatch key.
  /// The dispatcher's own: a call of an op passes through it, with or without a step around it.
  bool hands_op_on = false;
  /// Of a step of one op only: its unambiguous name, `add_Tensor`. A view into the symbol.
  std::string_view op;
};

FunctionRole role_of(std::string_view symbol);

/// What a function is to the call of an op.
enum class OpStep : std::uint8_t {
  none,
  passed,    ///< The dispatcher's, whatever the op is.
  of_it,     ///< A step of at::_ops that enters this op,
  of_other,  ///< or a step that enters another one, or whichever it is given.
};

/// What a function with this role is to the call of the op of this name (`aten::add.Tensor`); of
/// any if it is empty.
OpStep step_of(const FunctionRole& role, std::string_view op);

/// `aten::add.Tensor` as at::_ops names it: `add_Tensor`.
std::string unambiguous_name(std::string_view op);

/// `f.cold` and `f.cold.7` are where GCC puts the unlikely paths of f: code of f, without an entry.
/// Gives f.
std::string_view without_cold_suffix(std::string_view symbol);

/// Whether a file is the interpreter, or what everything stands on (the C and C++ libraries,
/// libffi): its functions call each other in more ways than anybody wants to see counted.
bool is_plumbing_library(std::string_view path);

/// Whether a function of the file at `path` is where a thread begins: glibc's, libstdc++'s and
/// OpenMP's. Distributions strip glibc's names of these.
bool begins_threads(std::string_view symbol, std::string_view path);

/// The folder in whose path the emulated CUDA device's libraries lie.
inline constexpr std::string_view kEmulatedDevicesFolder = "emulated-devices";

/// Whether a file is one of optrace's own in the traced process: the agents, the emulated device.
/// It is known what its functions call, so they need no probes.
bool is_own_library(std::string_view path);

}  // namespace optrace

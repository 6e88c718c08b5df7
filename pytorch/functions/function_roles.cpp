#include "pytorch/functions/function_roles.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "platform/files/cache_folders.h"
#include "pytorch/functions/dispatcher_steps.h"
#include "pytorch/names/op_name.h"

namespace optrace {
namespace {

// CPython's evaluation loop (Python/ceval.c). The name is the same since 3.6.
constexpr std::string_view kEvaluationLoop = "_PyEval_EvalFrameDefault";

// Functions of torch/csrc/autograd/engine.cpp. A node's call operator is inlined into one of them.
constexpr std::array<std::string_view, 3> kNodeRunners = {
    "_ZN5torch8autogradL13call_function", "_ZN5torch8autograd6Engine17evaluate_function",
    "_ZN5torch8autograd4NodeclE"};

// GNU's and LLVM's OpenMP: libgomp/libgomp.h, openmp/runtime/src/kmp.h.
constexpr std::string_view kGnuRegion = "GOMP_parallel";
constexpr std::string_view kGnuRegionEnd = "GOMP_parallel_end";
constexpr std::string_view kLlvmRegion = "__kmpc_fork_call";
constexpr std::string_view kGnuBody = "._omp_fn.";
constexpr std::string_view kLlvmBody = ".omp_outlined";

bool opens_gnu_region(std::string_view symbol) {
  return symbol.starts_with(kGnuRegion) && symbol != kGnuRegionEnd;
}

bool is_gnu_body(std::string_view symbol) {
  return symbol.find(kGnuBody) != std::string_view::npos;
}

bool opens_region(std::string_view symbol) {
  return opens_gnu_region(symbol) || symbol == kLlvmRegion;
}

bool is_region_body(std::string_view symbol) {
  return is_gnu_body(symbol) || symbol.find(kLlvmBody) != std::string_view::npos;
}

}  // namespace

bool is_evaluation_loop(std::string_view symbol) {
  // Profile-guided builds have clones: `_PyEval_EvalFrameDefault.localalias`, `.constprop.0`.
  return symbol.substr(0, symbol.find('.')) == kEvaluationLoop;
}

FunctionRole role_of(std::string_view symbol) {
  FunctionRole role;
  role.evaluation_loop = is_evaluation_loop(symbol);
  role.runs_nodes =
      std::ranges::any_of(kNodeRunners, [&](auto runner) { return symbol.starts_with(runner); });
  role.opens_region = opens_region(symbol);
  role.region_body = is_region_body(symbol);
  role.region_data = opens_gnu_region(symbol) || is_gnu_body(symbol);
  role.forwards_op = forwards_op(symbol);
  if (const auto step = dispatcher_step_of_symbol(symbol)) {
    role.op_call = !step->redispatch;
    role.op_redispatch = step->redispatch;
    role.op = step->op;
  }
  return role;
}

bool is_of_openmp_region(std::string_view symbol) {
  return opens_region(symbol) || is_region_body(symbol);
}

OpStep step_of(const FunctionRole& role, std::string_view op) {
  if (role.forwards_op) return OpStep::passed;
  if (!role.op_call) return OpStep::none;
  // at::_ops contains only the ops of aten's native_functions.yaml.
  const bool is_atens = op.find("::") == op.npos || op.starts_with("aten::");
  const bool same = op.empty() || (is_atens && role.op == unambiguous_name(op));
  return !role.op.empty() && same ? OpStep::of_it : OpStep::of_other;
}

std::string_view without_cold_suffix(std::string_view symbol) {
  const std::size_t at = symbol.rfind(".cold");
  if (at == std::string_view::npos || at == 0) return symbol;
  const std::string_view tail = symbol.substr(at + 5);
  const bool numbered = !tail.empty() && tail.front() == '.' &&
                        tail.find_first_not_of("0123456789", 1) == std::string_view::npos &&
                        tail.size() > 1;
  return tail.empty() || numbered ? symbol.substr(0, at) : symbol;
}

bool begins_threads(std::string_view symbol, std::string_view path) {
  constexpr std::array<std::string_view, 7> kNames = {"start_thread",
                                                      "clone",
                                                      "__clone",
                                                      "__clone3",
                                                      "execute_native_thread_routine",
                                                      "gomp_thread_start",
                                                      "__kmp_launch_worker"};
  const std::string_view file = path.substr(path.rfind('/') + 1);
  const bool libc =
      file.starts_with("libc.so") || file.starts_with("libc-") || file.starts_with("libpthread");
  return (libc && symbol.empty()) || std::ranges::count(kNames, symbol) != 0;
}

bool is_own_library(std::string_view path) {
  const std::size_t name = path.rfind('/') + 1;
  if (path.substr(name).starts_with("liboptrace_")) return true;
  constexpr std::string_view kFolder = cache_folders::kEmulatedDevices;
  for (std::size_t at = path.find(kFolder); at < name; at = path.find(kFolder, at + 1))
    if (at > 0 && path[at - 1] == '/' && path[at + kFolder.size()] == '/') return true;
  return false;
}

}  // namespace optrace

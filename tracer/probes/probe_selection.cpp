#include "tracer/probes/probe_selection.h"

#include <algorithm>
#include <cstddef>

#include <fmt/core.h>
#include <pthread.h>

#include "pytorch/functions/dispatcher_steps.h"
#include "pytorch/functions/function_roles.h"
#include "pytorch/functions/probed_functions.h"
#include "pytorch/installed/wheel_libraries.h"

namespace optrace {

bool has_telling_arguments(std::string_view symbol) {
  return takes_dispatch_keys(symbol) || role_of(symbol).region_data;
}

std::vector<NamedAddress> select_functions(const ModuleSymbols& module) {
  std::vector<NamedAddress> selected;
  module.for_each_name([&](std::uint64_t address, std::string_view symbol) {
    if (is_probed(symbol)) selected.push_back({address, symbol});
  });
  std::ranges::stable_sort(selected, {}, &NamedAddress::address);
  return selected;
}

std::vector<NamedAddress> select_slots(const ModuleSymbols& module) {
  std::vector<NamedAddress> selected;
  module.for_each_slot([&](std::uint64_t slot, std::string_view symbol) {
    if (is_probed(symbol)) selected.push_back({slot, symbol});
  });
  return selected;
}

std::optional<std::uint64_t> fork_lock_of(const ModuleSymbols& module) {
  // at::(anonymous namespace)::GlobalCallbackManager::get()::manager consists of a version
  // (std::size_t), a vector of callbacks and a mutex, in this order (ATen/record_function.cpp, 2.6
  // to 2.15).
  constexpr std::string_view kManager =
      "_ZZN2at12_GLOBAL__N_121GlobalCallbackManager3getEvE7manager";
  constexpr std::size_t kMutex = sizeof(std::size_t) + sizeof(std::vector<int>);
  const auto manager = module.find_object(kManager);
  if (!manager || manager->size != kMutex + sizeof(pthread_mutex_t)) return std::nullopt;
  return manager->address + kMutex;
}

std::vector<plan::Piece> evaluation_loop_of(const ModuleSymbols& module) {
  std::vector<plan::Piece> pieces;
  module.for_each_piece([&](const NativeFunction& piece) {
    if (is_evaluation_loop(piece.symbol) && piece.size != 0)
      pieces.push_back({piece.address, piece.address + piece.size});
  });
  return pieces;
}

std::string stripped_warning(const ModuleSymbols& module) {
  const std::string file = module.path().filename().string();
  if (!module.stripped() || !is_libtorch(file)) return {};
  return fmt::format(
      "{} is stripped: only functions that it exports have names. Static functions, wrappers such "
      "as wrapper_CPU_* and most kernels are missing from the tree. Install PyTorch's own wheel, "
      "or build without stripping, to get them.",
      file);
}

}  // namespace optrace

#include "tracer/process_map.h"

#include <fmt/format.h>

#include "platform/error.h"

namespace optrace {

namespace {

/// One file is read once, whatever links lead to it.
std::string resolved_path(const std::filesystem::path& path) {
  std::error_code error;
  const auto resolved = std::filesystem::canonical(path, error);
  return error ? path.string() : resolved.string();
}

}  // namespace

const ModuleSymbols& ModuleStore::open(const std::filesystem::path& path) {
  auto& module = modules_[resolved_path(path)];
  if (!module) module = std::make_unique<ModuleSymbols>(path);
  return *module;
}

const ModuleSymbols* ModuleStore::find(const LoadedModule& module) {
  // The kernel's vDSO has no file, and what optrace hands over no name; neither calls torch.
  if (module.path.empty() || module.path[0] != '/' || module.path.starts_with("/proc/"))
    return nullptr;
  const auto [known, is_new] = recorded_.try_emplace(module.path);
  if (!is_new) return known->second;
  try {
    const ModuleSymbols& symbols = open(root_.string() + module.path);
    if (symbols.build_id() == module.build_id) {
      known->second = &symbols;
    } else {
      warnings_.push_back(
          fmt::format("{} was replaced after the process had loaded it; its functions have no "
                      "names. Trace again.",
                      module.path));
    }
  } catch (const Error& error) {
    warnings_.push_back(fmt::format("{}; its functions have no names.", error.what()));
  }
  return known->second;
}

ProcessMap::ProcessMap(const ModuleList& modules, ModuleStore& store)
    : modules_(modules), store_(store) {}

const LocatedFunction* ProcessMap::caller(std::uint64_t return_address) {
  const auto [known, is_new] = callers_.try_emplace(return_address);
  std::optional<LocatedFunction>& located = known->second;
  if (is_new && return_address != 0) {
    const LoadedModule* module = modules_.at(return_address - 1);
    const ModuleSymbols* symbols = module != nullptr ? store_.find(*module) : nullptr;
    if (symbols != nullptr) {
      if (const auto function = symbols->find(return_address - 1 - module->bias)) {
        located = LocatedFunction{module, symbols, *function};
      }
    }
  }
  return located ? &*located : nullptr;
}

}  // namespace optrace

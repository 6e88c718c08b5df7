#include "tracer/probes/process_map.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include "platform/error.h"
#include "platform/process/running_process.h"

namespace optrace {
namespace {

/// Resolves links, so that each file is read once.
std::string resolved_path(const std::filesystem::path& path) {
  std::error_code error;
  const auto resolved = std::filesystem::canonical(path, error);
  return error ? path.string() : resolved.string();
}

}  // namespace

void ModuleStore::look_below(const std::filesystem::path& root) {
  root_ = Descriptor(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root_) {
    throw Error(ExitStatus::failed,
                fmt::format("{} can't be opened: {}", root.string(), describe_errno(errno)),
                "Run optrace as the process's user, or as root.");
  }
}

bool ModuleStore::has(const std::filesystem::path& path) const {
  std::error_code ignored;
  return root_ ? static_cast<bool>(open_below(root_, path))
               : std::filesystem::is_regular_file(path, ignored);
}

const ModuleSymbols& ModuleStore::open_below_root(const std::filesystem::path& path) {
  Descriptor file = open_below(root_, path);
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) {
    throw Error(ExitStatus::usage,
                fmt::format("cannot read {} in the process's root folder: {}", shown(path.string()),
                            describe_errno(errno)),
                "Restart the program if the file was replaced.");
  }
  auto& module = modules_[fmt::format("{}:{}", status.st_dev, status.st_ino)];
  if (!module) {
    module =
        std::make_unique<ModuleSymbols>(MappedFile(std::move(file), path, MappedFile::Trust::none));
  }
  return *module;
}

const ModuleSymbols& ModuleStore::open(const std::filesystem::path& path) {
  if (root_) return open_below_root(path);
  auto& module = modules_[resolved_path(path)];
  if (!module) module = std::make_unique<ModuleSymbols>(path);
  return *module;
}

const ModuleSymbols* ModuleStore::find(const LoadedModule& module) {
  // The vDSO has no file, and files that optrace passes as descriptors have no name; neither calls
  // torch.
  if (module.path.empty() || module.path[0] != '/' || module.path.starts_with("/proc/"))
    return nullptr;
  const auto [known, is_new] = recorded_.try_emplace(module.path);
  if (!is_new) return known->second;
  try {
    const ModuleSymbols& symbols = open(module.path);
    if (symbols.build_id() == module.build_id) {
      known->second = &symbols;
    } else {
      warnings_.push_back(fmt::format(
          "{} was replaced after the process loaded it; its functions have no names. Trace again.",
          module.path));
    }
  } catch (const Error& error) {
    warnings_.push_back(fmt::format("{}; its functions have no names.", error.what()));
  }
  return known->second;
}

std::vector<std::string> ModuleStore::warnings() const {
  std::vector<std::string> all = warnings_;
  for (const auto& [key, module] : modules_) {
    if (!module || !module->was_cut()) continue;
    all.push_back(
        fmt::format("{} was truncated while optrace read it; its functions may have wrong names or "
                    "none. Trace again.",
                    shown(module->path().string())));
  }
  return all;
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
      if (const auto function = symbols->find(return_address - 1 - module->bias))
        located = LocatedFunction{module, symbols, *function};
    }
  }
  return located ? &*located : nullptr;
}

}  // namespace optrace

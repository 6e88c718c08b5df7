#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tracer/module_symbols.h"
#include "tracer/recording.h"

namespace optrace {

/// ELF files that were opened, each once, for as long as the store lives.
class ModuleStore {
 public:
  /// From now on, the paths of recorded modules are looked for below `root`, as processes of
  /// another mount namespace have theirs.
  void look_below(std::filesystem::path root) { root_ = std::move(root); }

  /// Throws as ModuleSymbols does.
  const ModuleSymbols& open(const std::filesystem::path& path);

  /// The file behind a recorded module; null when it can't be read or is another build by now. Then
  /// a sentence about it is added to warnings(), once a module.
  const ModuleSymbols* find(const LoadedModule& module);

  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  std::filesystem::path root_;                                     ///< Empty: ours.
  std::map<std::string, std::unique_ptr<ModuleSymbols>> modules_;  ///< By resolved path.
  std::map<std::string, const ModuleSymbols*> recorded_;  ///< By recorded path; null: unusable.
  std::vector<std::string> warnings_;
};

/// A function of a traced process.
struct LocatedFunction {
  const LoadedModule* module = nullptr;
  const ModuleSymbols* symbols = nullptr;
  NativeFunction function;
};

/// Finds the functions that the run-time addresses of one process lie in, and remembers them.
class ProcessMap {
 public:
  /// Both must outlive the map. Modules may be added to the list meanwhile.
  ProcessMap(const ModuleList& modules, ModuleStore& store);

  /// The function that a call from just before `return_address` came from: the byte before counts,
  /// because a call may be a function's last instruction. `.cold` parts count as their functions.
  /// Null for code that no file holds or nothing names.
  const LocatedFunction* caller(std::uint64_t return_address);

 private:
  const ModuleList& modules_;
  ModuleStore& store_;
  std::unordered_map<std::uint64_t, std::optional<LocatedFunction>> callers_;
};

}  // namespace optrace

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "platform/descriptor.h"
#include "tracer/elf/module_symbols.h"
#include "tracer/trace/recording.h"

namespace optrace {

/// ELF files that were opened, each once, for as long as the store lives.
class ModuleStore {
 public:
  /// From now on, all paths are those of a process with the root folder `root`: no link and no `..`
  /// in them leads out of it. What is in there is nobody's whom we trust. Throws Error(failed)
  /// where it can't be opened.
  void look_below(const std::filesystem::path& root);
  bool looks_below() const { return static_cast<bool>(root_); }

  /// Whether there is such a regular file.
  bool has(const std::filesystem::path& path) const;

  /// Throws as ModuleSymbols does.
  const ModuleSymbols& open(const std::filesystem::path& path);

  /// The file behind a recorded module; null when it can't be read or is another build by now. Then
  /// a sentence about it is added to warnings(), once a module.
  const ModuleSymbols* find(const LoadedModule& module);

  /// These, and one for each file that was made smaller while it was read.
  std::vector<std::string> warnings() const;

 private:
  const ModuleSymbols& open_below_root(const std::filesystem::path& path);

  Descriptor root_;  ///< None: ours.
  /// By resolved path, or, below another root, by device and inode.
  std::map<std::string, std::unique_ptr<ModuleSymbols>> modules_;
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

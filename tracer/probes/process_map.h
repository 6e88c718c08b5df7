#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "platform/elf/module_symbols.h"
#include "platform/files/descriptor.h"
#include "tracer/trace/recording.h"

namespace optrace {

/// Opens ELF files, each once, and keeps them for its lifetime.
class ModuleStore {
 public:
  /// From now on, all paths are those of a process with the root folder `root`: links and `..`
  /// don't lead out of it. All files in it are untrusted. Throws Error(failed) if it can't be
  /// opened.
  void look_below(const std::filesystem::path& root);
  bool looks_below() const { return static_cast<bool>(root_); }

  /// Returns true if `path` is a regular file.
  bool has(const std::filesystem::path& path) const;

  /// Throws like the constructor of ModuleSymbols.
  const ModuleSymbols& open(const std::filesystem::path& path);

  /// Returns the file of a recorded module; null if it can't be read or is another build by now. In
  /// these cases, adds a sentence to warnings(), once per module.
  const ModuleSymbols* find(const LoadedModule& module);

  /// Warnings of find(), and one for each file that was truncated while it was read.
  std::vector<std::string> warnings() const;

 private:
  const ModuleSymbols& open_below_root(const std::filesystem::path& path);

  Descriptor root_;  ///< Empty: our own root folder.
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

/// Finds and caches the functions that contain run-time addresses of one process.
class ProcessMap {
 public:
  /// Both must outlive the map. Modules may be added to the list later.
  ProcessMap(const ModuleList& modules, ModuleStore& store);

  /// Returns the function that contains the call before `return_address`. Looks up the byte before
  /// it, because a call may be a function's last instruction. A `.cold` part counts as its
  /// function. Returns null for code that belongs to no file or to no function.
  const LocatedFunction* caller(std::uint64_t return_address);

 private:
  const ModuleList& modules_;
  ModuleStore& store_;
  std::unordered_map<std::uint64_t, std::optional<LocatedFunction>> callers_;
};

}  // namespace optrace

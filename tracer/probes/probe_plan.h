#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "platform/elf/branch_targets.h"
#include "platform/elf/module_symbols.h"
#include "platform/files/mapped_file.h"
#include "target/interface/plan_format.h"
#include "tracer/probes/return_sites.h"

namespace optrace {

/// Builds the content of a plan file (plan_format.h): for each function, how its entry may be
/// patched, and its first instructions in relocatable form.
class ProbePlanner {
 public:
  /// Both must outlive the planner.
  ProbePlanner(const ModuleSymbols& module, const BranchTargets& branch_targets);

  /// Adds a probe at the entry of the function at `address` (as linked), once per address: a
  /// function may have several names. Returns false if it can't be probed, because its first
  /// instruction can't be moved.
  bool add(std::uint64_t address);

  /// Adds a probe at the instruction after a call, which records what the call returned. Does
  /// nothing if the instruction can't be moved.
  void add_return(const ReturnSite& site);

  /// Makes forks wait for a mutex of the module; 0: none.
  void set_fork_lock(std::uint64_t address) { fork_lock_ = address; }

  /// Describes the evaluation loop to the agent, which gives it no probe. Pieces beyond
  /// plan::kMaxLoopPieces are dropped.
  void set_evaluation_loop(std::vector<plan::Piece> pieces) {
    evaluation_loop_ = std::move(pieces);
  }

  std::size_t probe_count() const noexcept { return probes_.size(); }

  /// Returns the plan's bytes, for a module that the process has loaded as `module_path`.
  std::string bytes(const std::filesystem::path& module_path) const;

 private:
  struct Slot;
  bool plan_jump(Slot& slot, std::span<const std::byte> code, std::uint64_t size) const;
  bool plan_trap(Slot& slot, std::span<const std::byte> code) const;
  void add_probe(Slot& slot, std::span<const std::byte> code, plan::Patch patch,
                 plan::ProbeKind kind);

  const ModuleSymbols& module_;
  const BranchTargets& branch_targets_;
  std::unordered_set<std::uint64_t> added_;
  std::vector<plan::Probe> probes_;
  std::vector<plan::Fixup> fixups_;
  std::string code_;
  std::uint64_t fork_lock_ = 0;
  std::vector<plan::Piece> evaluation_loop_;
};

/// A validated plan file: its checksum and sizes are correct, and every probe's code and fixups lie
/// inside.
class ProbePlan {
 public:
  /// Returns nullopt if the file is absent, truncated, corrupt, or of another version.
  static std::optional<ProbePlan> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const noexcept { return file_.path(); }
  const std::string& build_id() const noexcept { return build_id_; }
  const std::string& module_path() const noexcept { return module_path_; }
  const std::vector<plan::Probe>& probes() const noexcept { return probes_; }
  /// True if there is nothing to place: no probe and no evaluation loop.
  bool is_empty() const noexcept { return probes_.empty() && !has_evaluation_loop_; }
  std::span<const plan::Fixup> fixups(const plan::Probe& probe) const;
  std::string_view code(const plan::Probe& probe) const;

 private:
  explicit ProbePlan(MappedFile file) : file_(std::move(file)) {}
  bool parse();

  MappedFile file_;
  std::string build_id_;
  std::string module_path_;
  std::vector<plan::Probe> probes_;
  std::vector<plan::Fixup> fixups_;
  std::string_view code_;
  bool has_evaluation_loop_ = false;
};

}  // namespace optrace

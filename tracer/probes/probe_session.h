#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tracer/probes/probe_plan.h"
#include "tracer/probes/process_map.h"
#include "tracer/probes/return_sites.h"
#include "tracer/trace/recording.h"

namespace optrace {

/// Decides which functions of one traced process to probe. It runs in the command and never touches
/// the process. The launcher uses it like this:
///
///   ProbeSession session(private_folder.path());
///   place(session.initial_plans(modules));            // while the target still imports torch
///   Collector collector(region, session, options);    // reads while the program runs
///
/// Every plan stays placed, because ids in a recording refer to the plans that it was made with.
/// Not safe for concurrent use; several threads may use it in turn (for example a planning thread,
/// until it is joined).
class ProbeSession {
 public:
  /// `scratch_folder` receives the plan files that can't be cached. It must outlive the session,
  /// which does not empty it.
  explicit ProbeSession(std::filesystem::path scratch_folder, KnownResults results = {});
  ~ProbeSession();
  ProbeSession(const ProbeSession&) = delete;
  ProbeSession& operator=(const ProbeSession&) = delete;

  /// Returns the plans to place before the first recording: at most one for each module, and none
  /// for a module without functions worth probing. `modules` are paths of ELF files: torch's
  /// libraries and the interpreter (libpython or the executable, whichever contains it). Duplicates
  /// are allowed. Throws Error(usage) for a module that is corrupt or not an x86-64 ELF file (the
  /// remedy names its processor).
  std::vector<std::filesystem::path> initial_plans(
      const std::vector<std::filesystem::path>& modules);

  /// Returns the plan for a module that was loaded while recording, before any of its functions has
  /// run; empty if it is not related to torch, or has a plan already.
  std::filesystem::path plan_for_loaded(const LoadedModule& module);

  /// Same, for a library that the process has loaded before the first recording. Throws like
  /// initial_plans().
  std::filesystem::path plan_for_library(const std::filesystem::path& library);

  /// Returns the plan that these probes were placed from. Throws Error(failed) if it is not one of
  /// the session's.
  const ProbePlan& plan_of(const PlacedProbes& probes) const;

  /// The files of the traced process, as they are on this machine.
  ModuleStore& modules();

  /// Sentences for the user: a stripped libtorch, a module that has changed on disk.
  std::vector<std::string> warnings() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace optrace

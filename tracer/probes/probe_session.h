#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tracer/probes/probe_plan.h"
#include "tracer/probes/process_map.h"
#include "tracer/trace/recording.h"

namespace optrace {

/// The command's side of one traced process: decides what to probe. It never touches the process
/// itself. The launcher uses it like this:
///
///   ProbeSession session(private_folder.path());
///   place(session.initial_plans(modules));            // while the target still imports torch
///   record(raw);                                      // the call runs
///   write_trace(read_recorded_trace(session, raw, meta), path);
///
/// Every plan stays placed: ids in a recording name the plans that it was made with. Not safe for
/// use by several threads at once; one thread at a time is (a plan thread that was joined).
class ProbeSession {
 public:
  /// `scratch_folder` takes the plan files that no cache can hold. It must outlive the session and
  /// is not emptied by it.
  explicit ProbeSession(std::filesystem::path scratch_folder);
  ~ProbeSession();
  ProbeSession(const ProbeSession&) = delete;
  ProbeSession& operator=(const ProbeSession&) = delete;

  /// The plans to place before the first recording: at most two for each module, none for a module
  /// that has nothing worth probing. `modules` are paths of ELF files: torch's libraries and the
  /// interpreter's (libpython or the executable, whichever holds it); duplicates are fine.
  /// Throws Error(usage) for a module that is no x86-64 ELF file (the remedy names the processor it
  /// is for), or is corrupt.
  std::vector<std::filesystem::path> initial_plans(
      const std::vector<std::filesystem::path>& modules);

  /// The plan for a module that was loaded while recording, none of whose functions has run yet;
  /// empty if it has nothing to do with torch, or a plan already.
  std::filesystem::path plan_for_loaded(const LoadedModule& module);

  /// The plan that these probes were placed from. Throws Error(failed) if it is none of the
  /// session's.
  const ProbePlan& plan_of(const PlacedProbes& probes) const;

  /// The files of the traced process, as this machine has them.
  ModuleStore& modules();

  /// Sentences that the user should see: a stripped libtorch, a module that has changed on disk.
  std::vector<std::string> warnings() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace optrace

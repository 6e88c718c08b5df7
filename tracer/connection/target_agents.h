#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "target/build/built_for_torch.h"

namespace optrace {

/// The libraries that a traced process loads in addition to the agent.
struct TargetAgents {
  BuiltLibraries ops;
  BuiltLibraries device_activity;
  BuiltLibraries cuda_calls;

  /// Adds the reasons why one is missing or could not be cached to a trace's warnings.
  void add_warnings(std::vector<std::string>& warnings) const;
};

/// Finds or builds the agents for the torch in `torch_folder` (site-packages/torch), those for
/// devices if `devices` is set. Throws like find_or_build().
TargetAgents find_or_build_agents(const std::filesystem::path& torch_folder, bool devices,
                                  const BuildProgress& progress);

/// The agents for the processes of one program, which mostly have the same torch: those of a torch
/// are looked for or built once, also if they can't be built or cached. For any threads.
class SharedAgents {
 public:
  /// Returns the agents as find_or_build_agents() does, and throws as it does. `torch_folder` must
  /// be resolved.
  TargetAgents get(const std::filesystem::path& torch_folder, bool devices,
                   const BuildProgress& progress);

 private:
  std::timed_mutex mutex_;
  std::map<std::pair<std::filesystem::path, bool>, TargetAgents> known_;
};

}  // namespace optrace

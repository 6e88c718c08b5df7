#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

#include "tracer/runtime_build/built_for_torch.h"

namespace optrace {

/// The libraries that a traced process loads in addition to the agent.
struct TargetAgents {
  BuiltLibraries ops;
  BuiltLibraries device_activity;
  BuiltLibraries cuda_calls;

  /// Adds their paths to an order that begins a recording.
  void add_to(nlohmann::json& order) const;

  /// Adds the reasons why one is missing or could not be cached to a trace's warnings.
  void add_warnings(nlohmann::json& warnings) const;
};

/// Finds or builds the agents for the torch in `torch_folder` (site-packages/torch), those for
/// devices if `devices` is set. Throws like find_or_build().
TargetAgents find_or_build_agents(const std::filesystem::path& torch_folder, bool devices,
                                  const BuildProgress& progress);

}  // namespace optrace

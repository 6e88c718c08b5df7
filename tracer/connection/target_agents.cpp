#include "tracer/connection/target_agents.h"

#include <chrono>

#include "gpu/build/activity_agent.h"
#include "gpu/build/cuda_calls_agent.h"
#include "target/build/op_agent.h"

namespace optrace {

void TargetAgents::add_warnings(std::vector<std::string>& warnings) const {
  for (const auto* const agent : {&ops, &device_activity, &cuda_calls})
    if (!agent->missing.empty()) warnings.push_back(agent->missing);
  for (const auto* const agent : {&ops, &device_activity, &cuda_calls})
    add_not_kept_warning(*agent, warnings);
}

TargetAgents find_or_build_agents(const std::filesystem::path& torch_folder, bool devices,
                                  const BuildProgress& progress) {
  TargetAgents agents{.ops = find_or_build_op_agent(torch_folder, progress),
                      .device_activity = {},
                      .cuda_calls = {}};
  if (!devices) return agents;
  agents.device_activity = find_or_build_activity_agent(torch_folder, progress);
  agents.cuda_calls = find_or_build_cuda_calls_agent(torch_folder, progress);
  return agents;
}

TargetAgents SharedAgents::get(const std::filesystem::path& torch_folder, bool devices,
                               const BuildProgress& progress) {
  std::unique_lock lock(mutex_, std::defer_lock);
  while (!lock.try_lock_for(std::chrono::milliseconds(50))) progress.go_on();
  const std::pair key(torch_folder, devices);
  auto found = known_.find(key);
  if (found == known_.end())
    found = known_.emplace(key, find_or_build_agents(torch_folder, devices, progress)).first;
  return found->second;
}

}  // namespace optrace

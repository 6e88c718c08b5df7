#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "platform/private_folder.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// The library that records the work of CUDA devices in a traced process
/// (tracer/in_process/device_activity/), built for one torch.
struct ActivityAgent {
  std::filesystem::path library;  ///< Empty if there is none.
  /// If there is none: the reason and the remedy, in sentences for a trace's warnings.
  std::string missing;
  std::shared_ptr<const PrivateFolder> folder;  ///< Contains a library that can't be cached.
};

/// Returns true if the work of devices is recorded: if there are devices and this is no dry run.
/// $OPTRACE_DEVICE_ACTIVITY (1 or 0) overrides this.
bool records_device_activity(bool dry_run);

/// Returns the agent for the torch in `torch_folder` (site-packages/torch), from the user's cache.
/// The first time, it is built with the user's C++ compiler against the headers of the nvidia
/// wheels beside that torch, which is reported to `progress`. If it can't be built, `missing` has
/// the reason. Throws Error(interrupted) after a signal, if an InterruptGuard lives.
ActivityAgent find_or_build_activity_agent(const std::filesystem::path& torch_folder,
                                           const std::function<void(std::string_view)>& progress);

/// Adds warnings to a trace for device work that is missing according to its records.
void add_activity_warnings(Trace& trace);

}  // namespace optrace

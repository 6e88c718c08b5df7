#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "platform/private_folder.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// The library that records what CUDA devices do in a traced process
/// (tracer/in_process/device_activity/), built for one torch.
struct ActivityAgent {
  std::filesystem::path library;  ///< Empty if there is none.
  std::string missing;  ///< Then: why, and how to get one, in sentences for a trace's warnings.
  std::shared_ptr<const PrivateFolder> folder;  ///< Holds the library where no cache can.
};

/// Whether what devices do is recorded: where there are devices, not in a dry run;
/// $OPTRACE_DEVICE_ACTIVITY says otherwise, 1 or 0.
bool records_device_activity(bool dry_run);

/// The one for the torch in `torch_folder` (site-packages/torch), from the user's cache or, the
/// first time, built with the user's C++ compiler against the headers of the nvidia wheels beside
/// that torch; `progress` is told then. What can't be built is no error but says what is missing.
/// Throws Error(interrupted) after a signal, if an InterruptGuard lives.
ActivityAgent find_or_build_activity_agent(const std::filesystem::path& torch_folder,
                                           const std::function<void(std::string_view)>& progress);

/// Adds to a trace's warnings what of devices' work its records say is missing.
void add_activity_warnings(Trace& trace);

}  // namespace optrace

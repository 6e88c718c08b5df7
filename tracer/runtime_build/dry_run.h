#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "platform/running_process.h"
#include "tracer/runtime_build/emulated_device_build.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// What to emulate in place of a GPU.
struct EmulatedPart {
  std::string model;     ///< "sm_90", "rtx-4090" or "sm_89,sms=128": docs/cuda.md.
  unsigned devices = 1;  ///< How many of it.
};

/// What can be emulated, by architecture and by product, and what is taken where neither is named.
std::vector<std::string> emulated_architectures();
std::vector<std::string> emulated_gpu_models();
std::string usual_gpu_model();

/// Throws Error(usage) for what no GPU model is or has as a setting.
void require_gpu_model(const std::string& model);

/// Whether this machine has an NVIDIA driver that CUDA programs could use.
bool has_gpu();

/// A process in which CUDA's libraries are replaced by the emulated device's.
struct DryRun {
  EmulatedPart part;
  DeviceEmulation emulation;

  /// What the process's environment needs on top of ours: its children are dry then, too.
  std::vector<std::pair<std::string, std::string>> environment() const;
};

/// Finds or builds the emulated device for the torch that `python` imports. Nothing where the
/// Python does not run or has no torch: starting it will say so. Throws Error(usage) for a torch
/// that can't run dry, with the reason, and Error(interrupted) after a signal.
std::optional<DryRun> prepare_dry_run(const std::filesystem::path& python, const EmulatedPart& part,
                                      const std::function<void(std::string_view)>& progress);

/// The dry run that a running process is part of, by its own word (its environment, and what it has
/// mapped).
std::optional<DryRun> dry_run_of(const RunningProcess& process);

/// Adds to a trace's meta what the report has to know: meta["dry_run"], and a warning for each
/// function of CUDA's that was called and is not emulated.
void describe_dry_run(const DryRun& dry_run, Trace& trace);

}  // namespace optrace

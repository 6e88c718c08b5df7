#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpu/build/emulated_device_build.h"
#include "platform/process/running_process.h"

namespace optrace {

/// Returns the versions that the emulated libraries report to the torch in `torch_folder`
/// (site-packages/torch), as in gpu/models/library_versions.h: torch's CUDA version,
/// and the versions of the nvidia wheels beside it.
std::string reported_versions(const std::filesystem::path& torch_folder);

/// The GPUs to emulate.
struct EmulatedDevices {
  std::string gpu_model;  ///< "sm_90", "rtx-4090" or "sm_89,sms=128" (docs/cuda.md).
  unsigned count = 1;     ///< Number of GPUs.
};

/// Returns the architectures that can be emulated.
std::vector<std::string> emulated_architectures();
/// Returns the products that can be emulated.
std::vector<std::string> emulated_gpu_models();
/// Returns the model to emulate if none is named.
std::string usual_gpu_model();

/// Throws Error(usage) unless `model` is a GPU model with valid settings.
void require_gpu_model(const std::string& model);

/// Returns true if this machine has an NVIDIA driver that CUDA programs could use.
bool has_gpu();

/// A process in which CUDA's libraries are replaced by the emulated device's.
struct DryRun {
  EmulatedDevices devices;
  BuiltLibraries emulation;
  std::string versions{};  ///< reported_versions()

  struct GpuFacts {
    std::string arch;   ///< `sm_90`
    std::string model;  ///< For people: `NVIDIA H100`, or with its settings.
  };
  GpuFacts gpu() const;

  /// Returns the variables that the process's environment needs in addition to ours. Its children
  /// inherit the dry run.
  std::vector<std::pair<std::string, std::string>> environment() const;
};

/// Finds or builds the emulated device for the torch that `python` imports. Returns nullopt if the
/// Python does not run or has no torch, which starting it will report. Throws Error(usage) with the
/// reason for a torch that can't run dry, and Error(interrupted) after a signal.
std::optional<DryRun> prepare_dry_run(const std::filesystem::path& python,
                                      const EmulatedDevices& devices,
                                      const BuildProgress& progress);

/// Returns the dry run that a running process belongs to, according to its own environment and
/// mappings.
std::optional<DryRun> dry_run_of(const RunningProcess& process);

}  // namespace optrace

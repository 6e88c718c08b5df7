#pragma once

#include <string>

#include "gpu/build/dry_run.h"
#include "src/command_line/command_line.h"

namespace optrace {

/// `--dry-run[=MODEL]` and `--devices N`.
struct DryRunOptions {
  std::string gpu_model;  ///< Empty: no dry run.
  unsigned devices = 1;

  bool asked_for() const { return !gpu_model.empty(); }

  /// Returns the GPUs to emulate in a dry run, of the usual model if the option was not given.
  EmulatedDevices emulated_devices() const;
};

void add_dry_run_options(Command& app, DryRunOptions& options);

}  // namespace optrace

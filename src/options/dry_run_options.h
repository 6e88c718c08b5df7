#pragma once

#include <optional>
#include <string>

#include "gpu/build/dry_run.h"
#include "src/command_line/option_row.h"

namespace optrace {

/// `--dry-run[=MODEL]` and `--devices N`.
struct DryRunOptions {
  std::string gpu_model;            ///< Empty: no dry run.
  std::optional<unsigned> devices;  ///< Nothing: one.

  bool asked_for() const { return !gpu_model.empty(); }

  /// Returns the GPUs to emulate in a dry run, of the usual model if the option was not given.
  EmulatedDevices emulated_devices() const;
};

/// `options` must outlive the rows.
OptionRow dry_run_rows(DryRunOptions& options);

}  // namespace optrace

#pragma once

#include <string>

#include <CLI/App.hpp>

#include "tracer/runtime_build/dry_run.h"

namespace optrace {

/// `--dry-run[=PART]` and `--devices N`.
struct DryRunOptions {
  std::string part;  ///< Empty: no dry run.
  unsigned devices = 1;

  bool asked_for() const { return !part.empty(); }

  /// Returns the part to emulate in a dry run; the usual one if the option was not given.
  EmulatedPart emulated_part() const;
};

void add_dry_run_options(CLI::App& app, DryRunOptions& options);

}  // namespace optrace

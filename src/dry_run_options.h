#pragma once

#include <string>

#include <CLI/App.hpp>

#include "tracer/runtime_build/dry_run.h"

namespace optrace {

/// `--dry-run[=PART]` and `--devices N`.
struct DryRunOptions {
  std::string part;  ///< Empty: not asked for.
  unsigned devices = 1;

  bool asked_for() const { return !part.empty(); }

  /// The part to emulate if there is to be a dry run, asked for or not.
  EmulatedPart emulated_part() const;
};

void add_dry_run_options(CLI::App& app, DryRunOptions& options);

}  // namespace optrace

#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "indexer/frontend/worker_protocol.h"

namespace optrace {

/// A translation unit to index.
struct Unit {
  std::string source;  ///< Absolute.
  std::string name;    ///< Its name in the index, for messages.
  /// Compiler arguments, without source and precompiled header.
  std::vector<std::string> arguments;
  std::string precompiled;  ///< The precompiled header to read first; may be empty.
  std::string save_as;      ///< Where to save the unit as a precompiled header; may be empty.
};

/// A unit that could not be indexed.
struct FailedUnit {
  std::string name;
  std::string reason;  ///< "killed by SIGSEGV (Segmentation fault)", "no answer within 300 s".
};

struct DriverOptions {
  std::filesystem::path worker;  ///< The program to start.
  int jobs = 1;                  ///< Number of concurrent workers.
  std::chrono::seconds unit_limit{300};
};

/// Returns the version string of the libclang that the worker program uses. Throws Error(failed) if
/// the program does not run or finds no libclang.
std::string clang_version(const std::filesystem::path& worker);

/// Distributes units to worker processes and collects their results. A worker that crashes or does
/// not answer in time is replaced. A unit that fails is tried once more, without the precompiled
/// header. SIGPIPE must be ignored in the process.
class Driver {
 public:
  /// Receives the worker's output for units[unit] (worker_protocol.h).
  using ResultSink = std::function<void(std::size_t unit, const std::string& result)>;
  using Progress = std::function<void(std::size_t done, std::size_t total)>;

  Driver(DriverOptions options, WorkerSetup setup)
      : options_(std::move(options)), setup_(std::move(setup)) {}

  /// Returns when every unit is done or has failed. `sink` receives the results as they arrive.
  /// Throws Error(failed) if no worker can be started, and Error(interrupted) after a Ctrl-C seen
  /// by an InterruptGuard; the workers have ended then.
  std::vector<FailedUnit> run(const std::vector<Unit>& units, const ResultSink& sink,
                              const Progress& progress);

 private:
  DriverOptions options_;
  WorkerSetup setup_;
};

}  // namespace optrace

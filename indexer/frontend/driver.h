#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "indexer/frontend/worker_protocol.h"
#include "indexer/store/index_writer.h"

namespace optrace {

/// A translation unit to index.
struct Unit {
  std::string source;                  ///< Absolute.
  std::string name;                    ///< As the index names it, for messages.
  std::vector<std::string> arguments;  ///< The compiler's, without source and precompiled header.
  std::string precompiled;             ///< The precompiled header to read first; or empty.
  std::string save_as;                 ///< Write the unit there as a precompiled header; or empty.
};

/// What came of a unit that gave nothing.
struct FailedUnit {
  std::string name;
  std::string reason;  ///< "killed by SIGSEGV (Segmentation fault)", "no answer within 300 s".
};

struct DriverOptions {
  std::filesystem::path worker;  ///< The program to start.
  int jobs = 1;                  ///< Workers at a time.
  std::chrono::seconds unit_limit{300};
};

/// Which libclang the worker program has, in clang's words. Throws Error(failed) when it does not
/// run.
std::string clang_version(const std::filesystem::path& worker);

/// Hands units to worker processes and gathers what they find. A worker that crashes or does not
/// answer in time is replaced. A unit that fails is tried once more, without the precompiled
/// header. SIGPIPE must be ignored in the process.
class Driver {
 public:
  /// Gets what the worker wrote for units[unit] (worker_protocol.h).
  using ResultSink = std::function<void(std::size_t unit, const std::string& result)>;
  using Progress = std::function<void(std::size_t done, std::size_t total)>;

  Driver(DriverOptions options, WorkerSetup setup)
      : options_(std::move(options)), setup_(std::move(setup)) {}

  /// Returns when every unit is done or has failed. `sink` gets the results as they come.
  /// Throws Error(failed) when no worker can be started, Error(interrupted) after a Ctrl-C seen by
  /// an InterruptGuard; the workers are gone then.
  std::vector<FailedUnit> run(const std::vector<Unit>& units, const ResultSink& sink,
                              const Progress& progress);

 private:
  DriverOptions options_;
  WorkerSetup setup_;
};

}  // namespace optrace

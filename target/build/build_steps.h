#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace optrace {

/// A program that a build runs (argv, [0] looked up in PATH unless it has a slash).
using BuildStep = std::vector<std::string>;

struct BuildFailure {
  std::size_t step = 0;
  std::string said;  ///< The first line that describes the error.
};

/// Runs the steps in `folder`, which is also their TMPDIR, `at_once` at a time. Returns nullopt if
/// all succeed, else the first failure, after ending the other steps. Each step may use at most
/// minutes of processor time, gigabytes of memory and half a gigabyte of output, and may take any
/// time: a busy machine gives it no processor. Calls `go_on` many times a second meanwhile, and
/// throws what it throws; no step is running then. No step outlives this process.
std::optional<BuildFailure> run_build_steps(const std::vector<BuildStep>& steps,
                                            std::size_t at_once,
                                            const std::filesystem::path& folder,
                                            const std::function<void()>& go_on);

}  // namespace optrace

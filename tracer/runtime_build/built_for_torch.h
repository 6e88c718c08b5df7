#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/private_folder.h"

namespace optrace {

// Shared code for the libraries that are shipped as source and built once, with the user's own
// compiler, for the installed torch: the op-record agent, the agents for real devices, and the
// emulated CUDA device.

/// Identifies a build by everything that it depends on.
class BuildKey {
 public:
  /// Adds a part with its size, so that different lists of parts have different keys.
  void add(std::string_view part);

  /// Adds every file below `folder`, by name and content.
  void add_files_below(const std::filesystem::path& folder);

  /// 32 hex digits.
  std::string hex() const;

 private:
  std::string sum_;
};

/// Returns $CXX, else g++, c++ or clang++, as a shell would find it.
std::optional<std::filesystem::path> find_compiler();

/// The remedy if there is no compiler, one sentence.
extern const std::string_view kNoCompiler;

/// Returns a string that changes when another compiler is installed in its place.
std::string identity_of(const std::filesystem::path& compiler);

/// Returns the folder of the user's cache for builds of this kind ("op-agents"), created with mode
/// 0700; empty without a cache.
std::filesystem::path build_cache(std::string_view kind);

/// A program that a build runs (argv, [0] looked up in PATH unless it has a slash).
using BuildStep = std::vector<std::string>;

struct BuildFailure {
  std::size_t step = 0;
  std::string said;  ///< The first line that describes the error.
};

/// Runs the steps in `folder`, which is also their TMPDIR, `at_once` at a time. Returns nullopt if
/// all succeed, else the first failure, after ending the other steps. Each step may use at most
/// minutes of processor time, gigabytes of memory and half a gigabyte of output. Throws
/// Error(interrupted) after a signal, if an InterruptGuard lives; no step is running then.
std::optional<BuildFailure> run_build_steps(const std::vector<BuildStep>& steps,
                                            std::size_t at_once,
                                            const std::filesystem::path& folder);

/// The result of building one library.
struct BuiltLibrary {
  std::filesystem::path path;  ///< Empty if it could not be built.
  /// If it could not be built: the first line that describes the error.
  std::string failure;
  std::shared_ptr<const PrivateFolder> folder;  ///< Contains a library that can't be cached.
  /// If it is not cached because of its inputs: the reason.
  std::string not_kept;
};

/// Returns a warning for a library that stays in `folder` because it could not be cached: its build
/// serves this run only, the reason (see BuiltLibrary::not_kept) and the remedy, in sentences for a
/// trace's warnings. Empty if `folder` is null.
std::string not_kept_warning(const std::shared_ptr<const PrivateFolder>& folder,
                             const std::string& why);

/// The place of a library in the cache, and the data that its reuse depends on.
struct BuildPlace {
  std::filesystem::path cache;  ///< Empty without a cache.
  std::string name;
  std::filesystem::path packages;  ///< site-packages.
  std::filesystem::path compiler;
};

/// Returns the library if it is cached and the contents of all its inputs are unchanged.
std::optional<std::filesystem::path> kept_library(const BuildPlace& place);

/// Caches the library that was built in `folder`, where the compiler has listed its inputs
/// (dependency_arguments). A library stays in `folder` if users other than the command's own and
/// root could have changed an input.
BuiltLibrary keep_library(const std::shared_ptr<const PrivateFolder>& folder,
                          const BuildPlace& place);

/// The sources of a library and the arguments to build it.
struct LibraryBuild {
  std::vector<std::filesystem::path> sources;  ///< With different file names.
  std::vector<std::string> compile;            ///< Arguments for each source.
  std::vector<std::string> link;               ///< Arguments after the objects.
};

/// Compiles and links as C++20 or, if that fails, as the next older standard, and caches the
/// result. Throws like run_build_steps().
BuiltLibrary build_library(const BuildPlace& place, const LibraryBuild& build);

}  // namespace optrace

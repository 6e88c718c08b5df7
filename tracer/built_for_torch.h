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

// What libraries have in common that are shipped as source and built, once, with the user's own
// compiler for the torch at hand: the op-record agent, what follows real devices, and the emulated
// CUDA device.

/// Names a build by everything it depends on.
class BuildKey {
 public:
  /// Each part counts with its size, so that no two lists of parts look the same.
  void add(std::string_view part);

  /// Every file below `folder`, by name and content.
  void add_files_below(const std::filesystem::path& folder);

  /// 32 hex digits.
  std::string hex() const;

 private:
  std::string sum_;
};

/// The bytes of a file; nothing if it can't be read.
std::optional<std::string> content_of(const std::filesystem::path& path);

/// $CXX, else g++, c++ or clang++, as a shell would find it.
std::optional<std::filesystem::path> find_compiler();

/// Said where there is none: what to do, a sentence.
extern const std::string_view kNoCompiler;

/// Changes when another compiler is installed in its place.
std::string identity_of(const std::filesystem::path& compiler);

/// The folder of the user's cache for builds of this kind ("op-agents"), made with mode 0700; empty
/// where there is no cache.
std::filesystem::path build_cache(std::string_view kind);

/// A program that a build runs (argv, [0] looked up in PATH unless it has a slash).
using BuildStep = std::vector<std::string>;

struct BuildFailure {
  std::size_t step = 0;
  std::string said;  ///< The first line that says what is wrong.
};

/// Runs the steps, `at_once` at a time, in `folder`, where they find TMPDIR as well; nothing when
/// all succeed, else the first that failed, with the others ended. Throws Error(interrupted) after
/// a signal, if an InterruptGuard lives; nothing then runs any more.
std::optional<BuildFailure> run_build_steps(const std::vector<BuildStep>& steps,
                                            std::size_t at_once,
                                            const std::filesystem::path& folder);

/// A library that stands alone.
struct BuiltLibrary {
  std::filesystem::path path;                   ///< Empty if it could not be built.
  std::string failure;                          ///< Then: the first line that says what is wrong.
  std::shared_ptr<const PrivateFolder> folder;  ///< Holds the library where no cache can.
};

/// Where a library stays in `folder` since no cache could take it: that it took its time for this
/// run alone, why and what to do, in sentences for a trace's warnings. Empty where `folder` is
/// null.
std::string not_kept_warning(const std::shared_ptr<const PrivateFolder>& folder);

/// Keeps the library that was built as `name` in `folder` in `cache` (empty: nowhere) instead.
BuiltLibrary keep_library(const std::shared_ptr<const PrivateFolder>& folder,
                          const std::string& name, const std::filesystem::path& cache);

/// Runs the step that `compile` gives for a standard ("-std=c++20", or the next older one if that
/// fails) and the file that is to be made, and keeps the result in `cache` (empty: nowhere) as
/// `name`. Throws as run_build_steps does.
BuiltLibrary build_library(
    const std::filesystem::path& cache, const std::string& name,
    const std::function<BuildStep(const std::string& standard,
                                  const std::filesystem::path& library)>& compile);

}  // namespace optrace

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
/// all succeed, else the first that failed, with the others ended. Each may take minutes of
/// processor time, gigabytes of memory and half a gigabyte of output, no more. Throws
/// Error(interrupted) after a signal, if an InterruptGuard lives; nothing then runs any more.
std::optional<BuildFailure> run_build_steps(const std::vector<BuildStep>& steps,
                                            std::size_t at_once,
                                            const std::filesystem::path& folder);

/// A library that stands alone.
struct BuiltLibrary {
  std::filesystem::path path;                   ///< Empty if it could not be built.
  std::string failure;                          ///< Then: the first line that says what is wrong.
  std::shared_ptr<const PrivateFolder> folder;  ///< Holds the library where no cache can.
  std::string not_kept;  ///< Then: why, if what it was built from is the reason.
};

/// Where a library stays in `folder` since no cache could take it: that it took its time for this
/// run alone, why (see BuiltLibrary::not_kept) and what to do, in sentences for a trace's warnings.
/// Empty where `folder` is null.
std::string not_kept_warning(const std::shared_ptr<const PrivateFolder>& folder,
                             const std::string& why);

/// Where a library is kept, and what tells whether it still can be used.
struct BuildPlace {
  std::filesystem::path cache;  ///< Empty: nowhere.
  std::string name;
  std::filesystem::path packages;  ///< site-packages.
  std::filesystem::path compiler;
};

/// The library, if it is kept and all that it was built from has the same contents still.
std::optional<std::filesystem::path> kept_library(const BuildPlace& place);

/// Keeps the library that was built in `folder`, where the compiler left notes of what it read
/// (dependency_arguments). What others than the command's own user and root could have changed
/// leaves the library where it is.
BuiltLibrary keep_library(const std::shared_ptr<const PrivateFolder>& folder,
                          const BuildPlace& place);

/// What a library is made from.
struct LibraryBuild {
  std::vector<std::filesystem::path> sources;  ///< No two with the same name.
  std::vector<std::string> compile;            ///< Arguments for each of them.
  std::vector<std::string> link;               ///< Arguments behind the objects.
};

/// Compiles and links, as C++20 or, if that fails, the next older standard, and keeps the result.
/// Throws as run_build_steps does.
BuiltLibrary build_library(const BuildPlace& place, const LibraryBuild& build);

}  // namespace optrace

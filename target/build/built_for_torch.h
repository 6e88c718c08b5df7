#pragma once

#include <concepts>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "platform/files/private_folder.h"
#include "target/build/build_steps.h"
#include "target/build/prebuilt.h"

namespace optrace {

// The one builder of the libraries that are shipped as source and compiled once, with the user's
// own compiler, for the installed torch: the op-record agent, the agents for real devices, and the
// emulated CUDA device. Each of them is a BuildDescription in a file of its own.

/// Libraries that were compiled for one torch, or the reason why there are none.
struct BuiltLibraries {
  std::vector<std::filesystem::path> libraries{};  ///< In load order; empty if there are none.
  /// If there are none: the reason and the remedy, in sentences for a trace's warnings. Empty if
  /// this torch needs none.
  std::string missing{};
  std::shared_ptr<const PrivateFolder> folder{};  ///< Contains libraries that can't be cached.
  /// If they are not cached because of the files that they were built from, or because their folder
  /// of the cache can't be written to: the reason.
  std::string not_kept{};
  /// The name of the prebuilt libraries, such as "torch-2.7.0"; empty if they were compiled.
  std::string prebuilt{};

  /// Returns the only library; an empty path if there is none.
  std::filesystem::path library() const;
};

/// How a builder tells what it does, and what may end a build.
class BuildProgress {
 public:
  /// Shows nothing.
  BuildProgress() = default;

  /// Calls `show` with a sentence on what is done, before something that takes seconds, and
  /// `go_on` many times a second meanwhile. An exception of `go_on` ends the build and leaves
  /// find_or_build().
  template <std::invocable<std::string_view> Show>
  BuildProgress(Show show, std::function<void()> go_on = {})
      : show_(std::move(show)), go_on_(std::move(go_on)) {}

  /// Shows nothing.
  explicit BuildProgress(std::function<void()> go_on) : go_on_(std::move(go_on)) {}

  bool shows() const { return show_ != nullptr; }
  void show(std::string_view step) const {
    if (show_) show_(step);
  }
  void go_on() const {
    if (go_on_) go_on_();
  }

 private:
  std::function<void(std::string_view)> show_;
  std::function<void()> go_on_;
};

/// One library of a build.
struct LibraryToBuild {
  std::string name;  ///< Its file name.
  /// Their names are unique in the whole build. Those of BuildDescription::sources are compiled
  /// together: they don't use a name for different things in unnamed namespaces.
  std::vector<std::filesystem::path> sources;
  std::vector<std::string> compile_flags{};  ///< In addition to those of the description.
  std::vector<std::string> link_flags{};     ///< Likewise.
  std::size_t level = 0;                     ///< It is linked with all libraries of lower levels.
};

/// The steps of a build that depend on its folder.
struct BuildContents {
  std::vector<std::string> includes{};      ///< The compiler's arguments for include folders.
  std::vector<BuildStep> generators{};      ///< Run first: they write sources.
  std::vector<LibraryToBuild> libraries{};  ///< In load order.
  std::vector<std::string> linked_with{};   ///< The linker's arguments for further libraries.
  /// Files that belong beside the libraries: their names and contents.
  std::vector<std::pair<std::string, std::string>> texts{};
};

/// A description of libraries to build for a torch.
struct BuildDescription {
  std::string lacks{};     ///< The sentence that begins BuiltLibraries::missing.
  std::string progress{};  ///< "compiling the op-record agent for this torch, once"
  std::string building{};  ///< The subject of a sentence on a failed build: "Building it".

  std::string cache{};                   ///< The name of the folder in the user's cache.
  std::filesystem::path torch_folder{};  ///< site-packages/torch
  /// A folder with sources, an include folder for all of them. The cache key contains its contents.
  std::filesystem::path sources{};
  /// Identifies the source of a program that generates further sources; empty without one.
  std::string generator{};
  std::vector<std::string> key{};  ///< Further texts that the result depends on.
  /// Further files that the result depends on. The cache key contains their path, size and time.
  std::vector<std::filesystem::path> key_files{};

  std::vector<std::string> standards{};  ///< Tried in this order: "-std=c++20", "-std=c++17".
  // Part of the cache key. Without -march, because machines of different kinds may share a cache.
  std::vector<std::string> compile_flags{};
  std::vector<std::string> link_flags{};

  /// Returns why prebuilt libraries of this description's source don't fit the torch, as the
  /// predicate of a sentence; empty if they fit. Null if there are none for this description.
  std::function<std::string(const Prebuilt& prebuilt)> misfit{};
  /// Returns true for those of fitting prebuilt libraries that the torch needs. Null: for all.
  std::function<bool(const std::string& library)> is_needed{};
  /// Called if nothing is cached: returns why nothing can be built, in sentences; empty if it can.
  std::function<std::string()> obstacle{};
  /// Called after that. May write files into the folder.
  std::function<BuildContents(const std::filesystem::path& folder)> contents{};
};

/// Returns prebuilt libraries that fit the torch, unless $OPTRACE_PREBUILT is 0. Otherwise returns
/// the libraries from the user's cache if they are there, and all that they depend on is unchanged:
/// the description, the compiler, and the contents of all files that the compiler read. Otherwise
/// builds them with the user's C++ compiler ($CXX, else g++, c++ or clang++) and caches them,
/// unless users other than the command's own and root could have changed an input. Only one process
/// at a time builds for a folder of the cache: the others wait until it has ended, and look again.
/// If the libraries can't be built, `missing` has the reason. What takes more than ten seconds is
/// said on standard error, once, unless `progress` shows it on a terminal. Throws
/// Error(interrupted) after a signal, if an InterruptGuard lives, and what `progress` throws; no
/// compiler is running then.
BuiltLibraries find_or_build(const BuildDescription& description, const BuildProgress& progress);

/// Returns why no prebuilt libraries fit the torch, a sentence; empty if some fit.
std::string why_not_prebuilt(const BuildDescription& description);

/// Returns a hash over the description's source, generator and flags: over all that its libraries
/// are made of, less what belongs to the machine or to the torch.
std::string source_key(const BuildDescription& description);

/// Libraries that were just compiled, whatever is cached, and are not cached.
struct FreshBuild {
  BuiltLibraries built{};
  std::vector<std::filesystem::path> inputs{};  ///< inputs_of_build()
  std::vector<std::filesystem::path> texts{};   ///< BuildContents::texts
};

/// Compiles the libraries like find_or_build().
FreshBuild build_afresh(const BuildDescription& description);

/// Returns the user's C++ compiler: $CXX, else g++, c++ or clang++, as a shell would find it.
std::optional<std::filesystem::path> find_compiler();

/// Returns a result without libraries: the description's sentence, and the reason.
BuiltLibraries without_libraries(const BuildDescription& description, std::string_view why);

/// Returns a warning for libraries that could not be cached: their build serves this run only, the
/// reason, and the remedy, in sentences. Empty if they are cached.
std::string not_kept_warning(const BuiltLibraries& built);

/// Adds such a warning to those of a trace, unless they already contain the same one.
void add_not_kept_warning(const BuiltLibraries& built, std::vector<std::string>& warnings);

}  // namespace optrace

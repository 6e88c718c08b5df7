#include "target/build/built_for_torch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/files/descriptor.h"
#include "platform/files/file_trust.h"
#include "platform/files/whole_file.h"
#include "platform/process/find_program.h"
#include "platform/process/interrupt.h"
#include "target/build/build_inputs.h"
#include "target/build/cached_folder.h"

namespace optrace {
namespace {

constexpr std::string_view kNoCompiler =
    "This needs a C++ compiler once, and there is no g++, c++ or clang++ in PATH: install one "
    "(Debian and Ubuntu: apt install g++; Fedora: dnf install gcc-c++) and trace again.";

/// Returns the path of the program with this name, as a shell would find it.
std::optional<std::filesystem::path> in_path(const std::string& name) {
  if (name.find('/') == std::string::npos) return find_program(name, SearchedFolders::absolute);
  return is_executable_file(name) ? std::optional<std::filesystem::path>(name) : std::nullopt;
}

/// Returns a text that changes when another file is installed in the place of this one.
std::string identity_of(const std::filesystem::path& path) {
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  struct stat status{};
  if (error || ::stat(real.c_str(), &status) != 0) return fmt::format("{} missing", path.string());
  return fmt::format("{} {} {}", real.string(), status.st_size, status.st_mtim.tv_sec);
}

// Some compilers link a libstdc++ of their own statically. Two in one process don't agree on the
// numbers of a locale's facets, and a stream that both write to crashes. So the process's own comes
// first and leaves nothing to take from an archive, or nothing that others can see.
constexpr std::array kStandardLibrary = {"-l:libstdc++.so.6", "-Wl,--exclude-libs,ALL"};

/// Identifies a build by everything that it depends on.
class BuildKey {
 public:
  /// Adds a part with its size, so that different lists of parts have different keys.
  void add(std::string_view part) {
    sum_ += fmt::format("{}:", part.size());
    sum_ += part;
  }

  void add(const std::vector<std::string>& parts) {
    add(std::to_string(parts.size()));
    for (const std::string& part : parts) add(part);
  }

  /// Adds every file below `folder`, by name and content.
  void add_files_below(const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> files;
    for (const auto& file : std::filesystem::recursive_directory_iterator(
             folder, std::filesystem::directory_options::follow_directory_symlink))
      if (file.is_regular_file()) files.push_back(file.path());
    std::sort(files.begin(), files.end());
    for (const auto& file : files) {
      add(file.filename().string());
      add(read_file(file).value_or(""));
    }
  }

  /// 32 hex digits.
  std::string hex() const { return hash_of(sum_); }

 private:
  std::string sum_;
};

void append(std::vector<std::string>& arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
}

/// Few, because a compiler may take a gigabyte of memory.
std::size_t compilers_at_once() {
  return std::clamp(std::thread::hardware_concurrency(), 2U, 4U);
}

/// Tells what a builder does, and finds out whether it is to go on.
class BuildWatch {
 public:
  explicit BuildWatch(const BuildProgress& progress)
      : progress_(progress), shown_(progress.shows() && ::isatty(STDERR_FILENO) == 1) {}

  void begin(std::string step) {
    progress_.show(step);
    step_ = std::move(step);
    begin_ = Clock::now();
    said_ = shown_;
  }

  /// To be called many times a second. Throws Error(interrupted) after a signal, if an
  /// InterruptGuard lives, and what the progress throws.
  void go_on() {
    InterruptGuard::throw_if_interrupted();
    progress_.go_on();
    constexpr std::chrono::seconds kSilence{10};
    if (said_ || Clock::now() - begin_ < kSilence) return;
    said_ = true;
    fmt::print(stderr, "optrace: {}\n", step_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  const BuildProgress& progress_;
  const bool shown_;
  std::string step_;
  Clock::time_point begin_;
  bool said_ = false;
};

/// A lock on a folder of the cache, which a process holds while it builds for it. The system
/// releases the lock of a process that is killed.
class BuildLock {
 public:
  explicit BuildLock(const std::filesystem::path& folder)
      : folder_(folder.empty() ? -1 : ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  ~BuildLock() {
    if (held_) ::flock(folder_.get(), LOCK_UN);  // A forked process may have the descriptor, too.
  }
  BuildLock(const BuildLock&) = delete;
  BuildLock& operator=(const BuildLock&) = delete;

  /// Takes the lock. Returns false if another process holds it; true, too, where there are no
  /// locks.
  bool take() {
    if (!folder_) return true;
    held_ = ::flock(folder_.get(), LOCK_EX | LOCK_NB) == 0;
    return held_ || errno != EWOULDBLOCK;
  }

  bool is_held() const { return held_; }

 private:
  const Descriptor folder_;
  bool held_ = false;
};

/// One build, with one compiler.
class Build {
 public:
  Build(const BuildDescription& description, std::filesystem::path compiler,
        std::function<void()> go_on)
      : description_(description),
        go_on_(std::move(go_on)),
        compiler_(std::move(compiler)),
        packages_(description.torch_folder.parent_path()),
        cache_(cache_subfolder(description.cache)),
        key_(key()) {}

  std::optional<BuiltLibraries> cached() const {
    if (cache_.empty()) return std::nullopt;
    auto libraries = unchanged_libraries(cache_ / key_, packages_);
    if (!libraries) return std::nullopt;
    return BuiltLibraries{.libraries = std::move(*libraries)};
  }

  const std::filesystem::path& cache() const { return cache_; }

  /// Compiles the libraries, and caches them.
  BuiltLibraries make() {
    BuiltLibraries built = compile_and_link();
    if (!built.libraries.empty() && !cache_.empty()) keep(built);
    return built;
  }

  BuiltLibraries compile_and_link() {
    folder_ = std::make_shared<const PrivateFolder>();
    contents_ = description_.contents(folder_->path());
    for (LibraryToBuild& library : contents_.libraries) unite_sources(library);
    std::filesystem::create_directory(result());
    if (const auto failure = run_all()) {
      return without_libraries(
          description_, fmt::format("{} with {} failed ({}). $CXX selects another compiler.",
                                    description_.building, compiler_.string(), failure->said));
    }
    return {.libraries = libraries(), .folder = folder_};
  }

  std::vector<std::filesystem::path> texts() const {
    std::vector<std::filesystem::path> paths;
    paths.reserve(contents_.texts.size());
    for (const auto& [name, text] : contents_.texts) paths.push_back(result() / name);
    return paths;
  }

  std::vector<std::filesystem::path> inputs() const {
    return inputs_of_build(folder_->path(), compiler_, go_on_);
  }

 private:
  std::string key() const {
    BuildKey key;
    key.add(identity_of(compiler_));
    key.add(description_.key);
    key.add(std::to_string(description_.key_files.size()));
    for (const auto& file : description_.key_files) key.add(identity_of(file));
    key.add(source_key(description_));
    return key.hex();
  }

  /// Replaces the library's shipped sources with files that include a few of them each: most of the
  /// time goes to the headers that they share.
  void unite_sources(LibraryToBuild& library) const {
    constexpr std::size_t kMost = 6;
    std::vector<std::filesystem::path> others;
    std::vector<std::string> units;
    std::size_t shipped = 0;
    for (const auto& source : library.sources) {
      const auto name = source.lexically_relative(description_.sources);
      if (name.empty() || *name.begin() == "..") {
        others.push_back(source);
        continue;
      }
      if (shipped++ % kMost == 0) units.emplace_back();
      units.back() += fmt::format("#include \"{}\"\n", name.string());
    }
    library.sources = std::move(others);
    for (const std::string& unit : units) {
      const auto number = library.sources.size();
      library.sources.push_back(folder_->path() / fmt::format("{}_{}.cpp", library.name, number));
      write_file(library.sources.back(), unit);
    }
  }

  /// The folder of the finished libraries.
  std::filesystem::path result() const { return folder_->path() / description_.cache; }

  std::vector<std::filesystem::path> libraries() const {
    std::vector<std::filesystem::path> paths;
    paths.reserve(contents_.libraries.size());
    for (const LibraryToBuild& library : contents_.libraries)
      paths.push_back(result() / library.name);
    return paths;
  }

  std::optional<BuildFailure> run(const std::vector<BuildStep>& steps) const {
    return run_build_steps(steps, compilers_at_once(), folder_->path(), go_on_);
  }

  std::optional<BuildFailure> run_all() const {
    auto failure = run(contents_.generators);
    if (failure) return failure;
    for (const std::string& standard : description_.standards) {
      failure = compile(standard);
      if (!failure) failure = link();
      if (!failure) break;
    }
    if (!failure)
      for (const auto& [name, text] : contents_.texts) write_file(result() / name, text);
    return failure;
  }

  std::filesystem::path object_of(const std::filesystem::path& source) const {
    return folder_->path() / source.filename().replace_extension(".o");
  }

  std::optional<BuildFailure> compile(const std::string& standard) const {
    std::vector<BuildStep> steps;
    std::vector<std::string> names;
    for (const LibraryToBuild& library : contents_.libraries) {
      for (const auto& source : library.sources) {
        steps.push_back(compile_step(standard, library, source));
        names.push_back(source.filename());
      }
    }
    auto failure = run(steps);
    if (failure && failure->step < names.size())
      failure->said = fmt::format("{}: {}", names[failure->step], failure->said);
    return failure;
  }

  BuildStep compile_step(const std::string& standard, const LibraryToBuild& library,
                         const std::filesystem::path& source) const {
    const auto object = object_of(source);
    BuildStep step{compiler_.string(), standard};
    append(step, description_.compile_flags);
    append(step, library.compile_flags);
    append(step, {"-I", description_.sources.string()});
    append(step, contents_.includes);
    append(step, {"-c", source.string(), "-o", object.string()});
    append(step, dependency_arguments(object));
    return step;
  }

  std::optional<BuildFailure> link() const {
    std::map<std::size_t, std::vector<BuildStep>> levels;
    for (const LibraryToBuild& library : contents_.libraries)
      levels[library.level].push_back(link_step(library));
    for (const auto& [level, steps] : levels)
      if (auto failure = run(steps)) return failure;
    return std::nullopt;
  }

  BuildStep link_step(const LibraryToBuild& library) const {
    BuildStep step{compiler_.string()};
    append(step, description_.link_flags);
    append(step, library.link_flags);
    for (const auto& source : library.sources) step.push_back(object_of(source).string());
    for (const LibraryToBuild& other : contents_.libraries)
      if (other.level < library.level) step.push_back((result() / other.name).string());
    append(step, contents_.linked_with);
    append(step, {kStandardLibrary.begin(), kStandardLibrary.end()});
    append(step, {"-o", (result() / library.name).string()});
    return step;
  }

  /// Returns why libraries that depend on these files can't be used in later runs; empty if they
  /// can.
  std::string distrust_of_any(const std::vector<std::filesystem::path>& inputs) const {
    for (const auto* const files : {&inputs, &description_.key_files}) {
      for (const auto& file : *files) {
        std::error_code error;
        if (!std::filesystem::exists(file, error)) continue;
        if (std::string wrong = distrust_of(file); !wrong.empty()) return wrong;
      }
    }
    return {};
  }

  /// Caches the libraries, or leaves them in the build's own folder.
  void keep(BuiltLibraries& built) const {
    const auto read = inputs();
    built.not_kept = distrust_of_any(read);
    const std::string list = describe_inputs(built.libraries, read, packages_);
    if (!built.not_kept.empty() || list.empty()) return;
    try {
      NewFolder kept(cache_);
      for (const auto& file : std::filesystem::directory_iterator(result()))
        write_file(kept.path() / file.path().filename(), read_file(file.path()).value_or(""));
      write_file(inputs_path(kept.path()), list);
      // Another process may have been faster.
      if (!cached()) kept.replace(cache_ / key_);
      if (auto found = cached()) built = std::move(*found);
    } catch (const std::exception& error) {
      // The next run builds again.
      if (cache_problem().empty())
        built.not_kept = fmt::format("{} can't be written to: {}", cache_.string(), error.what());
    }
  }

  const BuildDescription& description_;
  const std::function<void()> go_on_;  ///< As for run_build_steps().
  const std::filesystem::path compiler_;
  const std::filesystem::path packages_;  ///< site-packages
  const std::filesystem::path cache_;     ///< Empty without a cache.
  const std::string key_;
  std::shared_ptr<const PrivateFolder> folder_;  ///< Set by make().
  BuildContents contents_;
};

/// Returns the prebuilt libraries that fit. If there are none, `why` gets the reason, a sentence.
std::optional<Prebuilt> find_prebuilt(const BuildDescription& description, std::string& why) {
  if (const char* const wish = std::getenv("OPTRACE_PREBUILT");
      wish != nullptr && std::string_view(wish) == "0") {
    why = "Ready-made ones are not used: $OPTRACE_PREBUILT is 0.";
    return std::nullopt;
  }
  const auto all = prebuilt_libraries(prebuilt_folder(description.cache));
  const std::string source = source_key(description);
  why = all.empty() ? "This optrace was built without ready-made ones."
                    : "The ready-made ones were built from another source of optrace.";
  for (const Prebuilt& prebuilt : all) {
    if (prebuilt.source_key != source) continue;
    const std::string misfit = description.misfit(prebuilt);
    if (misfit.empty()) return prebuilt;
    why = fmt::format("No ready-made one fits: that of {} {}.", prebuilt.folder.filename().string(),
                      misfit);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::filesystem::path> find_compiler() {
  const char* const variable = std::getenv("CXX");
  for (const std::string name : {variable == nullptr ? "" : variable, "g++", "c++", "clang++"})
    if (!name.empty())
      if (auto path = in_path(name)) return path;
  return std::nullopt;
}

std::filesystem::path BuiltLibraries::library() const {
  return libraries.empty() ? std::filesystem::path() : libraries.front();
}

BuiltLibraries without_libraries(const BuildDescription& description, std::string_view why) {
  return {.missing = fmt::format("{} {}", description.lacks, why)};
}

std::string source_key(const BuildDescription& description) {
  BuildKey key;
  for (const auto* const list :
       {&description.standards, &description.compile_flags, &description.link_flags})
    key.add(*list);
  for (const char* const flag : kStandardLibrary) key.add(flag);
  key.add(description.generator);
  key.add_files_below(description.sources);
  return key.hex();
}

std::string why_not_prebuilt(const BuildDescription& description) {
  std::string why;
  return description.misfit && find_prebuilt(description, why) ? std::string() : why;
}

FreshBuild build_afresh(const BuildDescription& description) {
  const auto compiler = find_compiler();
  if (!compiler) return {.built = without_libraries(description, kNoCompiler)};
  Build build(description, *compiler, [] { InterruptGuard::throw_if_interrupted(); });
  FreshBuild fresh{.built = build.compile_and_link()};
  fresh.inputs = build.inputs();
  fresh.texts = build.texts();
  return fresh;
}

BuiltLibraries find_or_build(const BuildDescription& description, const BuildProgress& progress) {
  if (description.misfit) {
    std::string ignored;
    if (const auto prebuilt = find_prebuilt(description, ignored)) {
      PrebuiltFiles files = files_of(*prebuilt, cache_subfolder(description.cache));
      if (description.is_needed)
        std::erase_if(files.libraries, [&](const auto& library) {
          return !description.is_needed(library.filename());
        });
      if (!files.libraries.empty())
        return {.libraries = std::move(files.libraries),
                .folder = std::move(files.folder),
                .prebuilt = prebuilt->folder.filename().string()};
    }
  }
  const auto compiler = find_compiler();
  BuildWatch watch(progress);
  std::optional<Build> build;
  if (compiler) build.emplace(description, *compiler, [&watch] { watch.go_on(); });
  if (build)
    if (auto built = build->cached()) return *std::move(built);
  std::string obstacle = description.obstacle ? description.obstacle() : std::string();
  if (!build) {
    if (!obstacle.empty()) obstacle += obstacle.ends_with('.') ? " " : ". ";
    obstacle += kNoCompiler;
  }
  if (!build || !obstacle.empty()) return without_libraries(description, obstacle);
  // Whoever waits for a build that can't be cached waits for nothing.
  const bool can_keep = ::access(build->cache().c_str(), W_OK) == 0;
  BuildLock lock(can_keep ? build->cache() : std::filesystem::path());
  if (!lock.take()) {
    watch.begin(fmt::format("waiting for another optrace that is {}", description.progress));
    while (!lock.take()) {
      watch.go_on();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  // Another process may have built them since the first look.
  if (auto built = build->cached()) return *std::move(built);
  if (lock.is_held()) NewFolder::remove_left_behind(build->cache());
  watch.begin(description.progress);
  try {
    return build->make();
  } catch (const std::filesystem::filesystem_error& error) {  // E.g. a full disk.
    return without_libraries(description,
                             fmt::format("{} failed: {}.", description.building, error.what()));
  }
}

std::string not_kept_warning(const BuiltLibraries& built) {
  if (!built.folder || !built.prebuilt.empty()) return {};
  const std::string problem = built.not_kept.empty() ? cache_problem() : built.not_kept + ".";
  return fmt::format(
      "The libraries compiled for this torch can't be cached and are compiled again in each run, "
      "which takes ten seconds or more: {}",
      problem.empty() ? "the cache can't be written. Free some space." : problem);
}

void add_not_kept_warning(const BuiltLibraries& built, std::vector<std::string>& warnings) {
  const std::string warning = not_kept_warning(built);
  if (!warning.empty() && std::find(warnings.begin(), warnings.end(), warning) == warnings.end())
    warnings.push_back(warning);
}

}  // namespace optrace

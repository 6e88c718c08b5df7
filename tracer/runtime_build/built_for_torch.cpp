#include "tracer/runtime_build/built_for_torch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <list>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "platform/child_process.h"
#include "platform/descriptor.h"
#include "platform/error.h"
#include "platform/file_trust.h"
#include "platform/interrupt.h"
#include "platform/output_file.h"
#include "platform/whole_file.h"
#include "tracer/runtime_build/build_inputs.h"

namespace optrace {
namespace {

// Limits, because a compiler's inputs may be crafted to keep it busy. The emulated device, the
// largest build, takes less than a tenth of each.
constexpr std::chrono::minutes kPatience{5};
constexpr rlim_t kMaxSeconds = 300;
#ifdef __SANITIZE_ADDRESS__
// The generator of the emulated device is one of the steps; AddressSanitizer reserves terabytes.
constexpr rlim_t kMaxMemory = RLIM_INFINITY;
#else
constexpr rlim_t kMaxMemory = rlim_t{8} << 30;
#endif
constexpr rlim_t kMaxOutput = rlim_t{512} << 20;
// Newer torch needs C++20; a compiler without it may still build for an older torch.
constexpr std::array kStandards = {"-std=c++20", "-std=c++17"};
constexpr std::size_t kCompilersAtOnce = 2;

/// Returns the path of the program with this name, as a shell would find it.
std::optional<std::filesystem::path> in_path(const std::string& name) {
  const auto runs = [](const std::filesystem::path& path) {
    std::error_code error;
    return std::filesystem::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos)
    return runs(name) ? std::optional<std::filesystem::path>(name) : std::nullopt;
  const char* const variable = std::getenv("PATH");
  std::string_view rest = variable == nullptr ? "" : variable;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const std::filesystem::path folder = rest.substr(0, end);
    if (folder.is_absolute() && runs(folder / name)) return folder / name;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return std::nullopt;
}

/// Returns the first line of a compiler's or linker's output that describes an error.
std::string first_error(const std::string& said) {
  constexpr std::size_t kLongest = 300;
  // "error: ld returned 1 exit status" comes from the compiler; the linker's own message precedes
  // it.
  for (const std::string_view mark : {"error: ", "undefined reference", "ld: "}) {
    for (std::size_t at = said.find(mark); at != std::string::npos; at = said.find(mark, at + 1)) {
      const std::string line = said.substr(at, std::min(said.find('\n', at), said.size()) - at);
      if (!line.starts_with("error: ld returned")) return line.substr(0, kLongest);
    }
  }
  return said.substr(0, std::min(said.find('\n'), kLongest));
}

/// A running step. The destructor ends it.
class RunningStep {
 public:
  /// Throws Error if it can't be started.
  RunningStep(std::size_t number, const BuildStep& step, const std::filesystem::path& folder)
      : number_(number), output_(folder / fmt::format("said-{}", number)) {
    const Descriptor output(
        ::open(output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (!output)
      throw Error(ExitStatus::failed, describe_errno(errno), "Free space in the folder TMPDIR.");
    ChildProcess::Options options;
    options.arguments = step;
    options.environment = {{"LC_ALL", "C"}, {"TMPDIR", folder.string()}};
    options.descriptors = {{output.get(), STDOUT_FILENO}, {output.get(), STDERR_FILENO}};
    options.working_folder = folder.string();
    options.limits = {{RLIMIT_CPU, kMaxSeconds},
                      {RLIMIT_AS, kMaxMemory},
                      {RLIMIT_FSIZE, kMaxOutput},
                      {RLIMIT_CORE, 0}};
    child_ = std::make_unique<ChildProcess>(options);
    end_ = std::chrono::steady_clock::now() + kPatience;
  }

  /// Returns true once the step has ended, or has run too long.
  bool ended(std::chrono::milliseconds limit) {
    status_ = child_->wait_for(limit);
    return status_ || std::chrono::steady_clock::now() >= end_;
  }

  std::optional<BuildFailure> failure() const {
    if (!status_)
      return BuildFailure{
          number_, fmt::format("it did not end within {} minutes; its input may be malicious",
                               kPatience.count())};
    if (*status_ == 0) return std::nullopt;
    const std::string said = first_error(read_file(output_).value_or(""));
    return BuildFailure{number_, said.empty() ? describe_wait_status(*status_) : said};
  }

 private:
  std::size_t number_;
  std::filesystem::path output_;
  std::unique_ptr<ChildProcess> child_;
  std::chrono::steady_clock::time_point end_;
  std::optional<int> status_;
};

}  // namespace

const std::string_view kNoCompiler =
    "This needs a C++ compiler once, and there is no g++, c++ or clang++ in PATH: install one "
    "(Debian and Ubuntu: apt install g++; Fedora: dnf install gcc-c++) and trace again.";

void BuildKey::add(std::string_view part) {
  sum_ += fmt::format("{}:", part.size());
  sum_ += part;
}

void BuildKey::add_files_below(const std::filesystem::path& folder) {
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

std::string BuildKey::hex() const {
  const XXH128_hash_t hash = XXH3_128bits(sum_.data(), sum_.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::optional<std::filesystem::path> find_compiler() {
  const char* const variable = std::getenv("CXX");
  for (const std::string name : {variable == nullptr ? "" : variable, "g++", "c++", "clang++"})
    if (!name.empty())
      if (auto path = in_path(name)) return path;
  return std::nullopt;
}

std::string identity_of(const std::filesystem::path& compiler) {
  std::error_code error;
  const auto real = std::filesystem::canonical(compiler, error);
  struct stat status{};
  if (::stat(compiler.c_str(), &status) != 0) return compiler.string();
  return fmt::format("{} {} {}", error ? compiler.string() : real.string(), status.st_size,
                     status.st_mtim.tv_sec);
}

std::filesystem::path build_cache(std::string_view kind) {
  std::filesystem::path folder = cache_folder();
  if (folder.empty()) return {};
  folder /= kind;
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return {};
  return folder;
}

std::optional<BuildFailure> run_build_steps(const std::vector<BuildStep>& steps,
                                            std::size_t at_once,
                                            const std::filesystem::path& folder) {
  std::list<RunningStep> running;
  std::size_t next = 0;
  try {
    while (next < steps.size() || !running.empty()) {
      while (next < steps.size() && running.size() < at_once) {
        running.emplace_back(next, steps[next], folder);
        ++next;
      }
      // Short, because another step may have ended.
      const std::chrono::milliseconds limit(running.size() == 1 ? 100 : 10);
      for (auto step = running.begin(); step != running.end();) {
        const bool ended = step->ended(limit);
        InterruptGuard::throw_if_interrupted();
        if (ended) {
          if (auto failure = step->failure()) return failure;
          step = running.erase(step);
        } else {
          ++step;
        }
      }
    }
  } catch (const Error& error) {
    if (error.status() == ExitStatus::interrupted) throw;
    return BuildFailure{next, error.what()};
  }
  return std::nullopt;
}

std::string not_kept_warning(const std::shared_ptr<const PrivateFolder>& folder,
                             const std::string& why) {
  if (!folder) return {};
  const std::string problem = why.empty() ? cache_problem() : why + ".";
  return fmt::format(
      "The libraries compiled for this torch can't be cached and are compiled again in each run, "
      "which takes ten seconds or more: {}",
      problem.empty() ? "the cache can't be written. Free some space." : problem);
}

namespace {

/// Returns why a library with these inputs can't be used in later runs; empty if it can.
std::string distrust_of_any(const std::vector<std::filesystem::path>& inputs) {
  for (const auto& input : inputs)
    if (std::string wrong = distrust_of(input); !wrong.empty()) return wrong;
  return {};
}

}  // namespace

std::optional<std::filesystem::path> kept_library(const BuildPlace& place) {
  if (place.cache.empty()) return std::nullopt;
  std::filesystem::path library = place.cache / place.name;
  std::error_code error;
  if (!std::filesystem::exists(library, error) || !inputs_are_the_same(library, place.packages))
    return std::nullopt;
  return library;
}

BuiltLibrary keep_library(const std::shared_ptr<const PrivateFolder>& folder,
                          const BuildPlace& place) {
  BuiltLibrary built{
      .path = folder->path() / place.name, .failure = {}, .folder = folder, .not_kept = {}};
  if (place.cache.empty()) return built;
  const auto inputs = inputs_of_build(folder->path(), place.compiler);
  built.not_kept = distrust_of_any(inputs);
  const std::string list = describe_inputs(built.path, inputs, place.packages);
  if (!built.not_kept.empty() || list.empty()) return built;
  try {
    const auto kept = place.cache / place.name;
    // The list identifies its library: without the list, the library is not used.
    write_file(kept, read_file(built.path).value_or(""));
    write_file(inputs_path(kept), list);
    return {.path = kept, .failure = {}, .folder = {}, .not_kept = {}};
  } catch (const Error&) {
    return built;  // E.g. a full disk. The next run builds again.
  }
}

BuiltLibrary build_library(const BuildPlace& place, const LibraryBuild& build) {
  const auto folder = std::make_shared<const PrivateFolder>();
  std::string said;
  for (const char* const standard : kStandards) {
    std::vector<BuildStep> compile;
    BuildStep link{place.compiler.string()};
    for (const auto& source : build.sources) {
      const auto object = folder->path() / source.filename().replace_extension(".o");
      BuildStep step{place.compiler.string(), standard};
      step.insert(step.end(), build.compile.begin(), build.compile.end());
      step.insert(step.end(), {"-c", source.string(), "-o", object.string()});
      const auto note = dependency_arguments(object);
      step.insert(step.end(), note.begin(), note.end());
      compile.push_back(std::move(step));
      link.push_back(object.string());
    }
    link.insert(link.end(), build.link.begin(), build.link.end());
    link.insert(link.end(), {"-o", (folder->path() / place.name).string()});
    auto failure = run_build_steps(compile, kCompilersAtOnce, folder->path());
    if (!failure) failure = run_build_steps({link}, 1, folder->path());
    if (!failure) return keep_library(folder, place);
    said = failure->said;
  }
  return {.path = {}, .failure = said, .folder = {}, .not_kept = {}};
}

}  // namespace optrace

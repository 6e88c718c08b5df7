#include "target/build/build_steps.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <list>
#include <memory>
#include <string_view>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/files/descriptor.h"
#include "platform/files/whole_file.h"
#include "platform/process/child_process.h"

namespace optrace {
namespace {

// Limits, because a compiler's inputs may be crafted to keep it busy. The emulated device, the
// largest build, takes less than a tenth of each.
constexpr rlim_t kMaxSeconds = 300;
#ifdef __SANITIZE_ADDRESS__
// The generator of the emulated device is one of the steps; AddressSanitizer reserves terabytes.
constexpr rlim_t kMaxMemory = RLIM_INFINITY;
#else
constexpr rlim_t kMaxMemory = rlim_t{8} << 30;
#endif
constexpr rlim_t kMaxOutput = rlim_t{512} << 20;

/// Returns the first line of a compiler's or linker's output that describes an error.
std::string first_error(const std::string& said) {
  constexpr std::size_t kMaxLength = 300;
  // "error: ld returned 1 exit status" comes from the compiler; the linker's own message precedes
  // it.
  for (const std::string_view mark : {"error: ", "undefined reference", "ld: "}) {
    for (std::size_t at = said.find(mark); at != std::string::npos; at = said.find(mark, at + 1)) {
      const std::string line = said.substr(at, std::min(said.find('\n', at), said.size()) - at);
      if (!line.starts_with("error: ld returned")) return line.substr(0, kMaxLength);
    }
  }
  return said.substr(0, std::min(said.find('\n'), kMaxLength));
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
    options.dies_with_us = true;
    options.limits = {{RLIMIT_CPU, kMaxSeconds},
                      {RLIMIT_AS, kMaxMemory},
                      {RLIMIT_FSIZE, kMaxOutput},
                      {RLIMIT_CORE, 0}};
    child_ = std::make_unique<ChildProcess>(options);
  }

  /// Returns true if the step ends within `limit`.
  bool ended(std::chrono::milliseconds limit) {
    status_ = child_->wait_for(limit);
    return status_.has_value();
  }

  /// Call after the end.
  std::optional<BuildFailure> failure() const {
    if (!status_ || *status_ == 0) return std::nullopt;
    const std::string said = first_error(read_file(output_).value_or(""));
    return BuildFailure{number_, said.empty() ? describe_wait_status(*status_) : said};
  }

 private:
  std::size_t number_;
  std::filesystem::path output_;
  std::unique_ptr<ChildProcess> child_;
  std::optional<int> status_;
};

}  // namespace

std::optional<BuildFailure> run_build_steps(const std::vector<BuildStep>& steps,
                                            std::size_t at_once,
                                            const std::filesystem::path& folder,
                                            const std::function<void()>& go_on) {
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
        go_on();
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

}  // namespace optrace

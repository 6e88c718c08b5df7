#include "src/inputs/background_index.h"

#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <system_error>

#include <fcntl.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "indexer/sources/work_folder.h"
#include "platform/error.h"
#include "pytorch/installed/installed_torch.h"

namespace optrace {
namespace {

constexpr auto kRetryAfter = std::chrono::hours(24);
constexpr const char* kLog = "background.log";

bool is_allowed() {
  const char* const asked = std::getenv("OPTRACE_BACKGROUND");
  if (asked != nullptr) return std::string_view(asked) != "0";
  return std::getenv("CI") == nullptr;
}

/// The log of the process in the background. That process inherits the open file, which is locked
/// as long as it lives.
class BackgroundLog {
 public:
  explicit BackgroundLog(const std::filesystem::path& path)
      : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)) {}
  ~BackgroundLog() {
    if (file_ >= 0) ::close(file_);
  }
  BackgroundLog(const BackgroundLog&) = delete;
  BackgroundLog& operator=(const BackgroundLog&) = delete;

  int file() const { return file_; }

  /// Returns false if a process in the background has it.
  bool lock() const { return ::flock(file_, LOCK_EX | LOCK_NB) == 0; }

  /// Returns true if the attempt that wrote it is not long ago.
  bool is_recent() const {
    struct stat status{};
    if (::fstat(file_, &status) != 0 || status.st_size == 0) return false;
    const auto written = std::chrono::system_clock::from_time_t(status.st_mtime);
    return std::chrono::system_clock::now() - written < kRetryAfter;
  }

  void clear() const {
    if (::ftruncate(file_, 0) != 0) return;  // Then the new output follows the old one.
  }

 private:
  int file_;
};

/// Owns file actions and attributes of posix_spawn.
class SpawnSettings {
 public:
  explicit SpawnSettings(int output) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDERR_FILENO);
    ::posix_spawnattr_init(&attributes_);
    // A session of its own: the terminal's signals don't reach it.
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSID);
  }
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

bool start(const std::filesystem::path& python, int output) {
  std::error_code error;
  const std::string command = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return false;
  const std::string path = std::filesystem::absolute(python).string();
  std::array<std::string, 6> words = {command, "source", "add", "--wheel", "--python", path};
  std::array<char*, 7> arguments{};
  for (std::size_t i = 0; i < words.size(); ++i) arguments.at(i) = words.at(i).data();
  const SpawnSettings settings(output);
  pid_t child = 0;
  if (::posix_spawn(&child, command.c_str(), settings.actions(), settings.attributes(),
                    arguments.data(), environ) != 0)
    return false;
  constexpr int kLowest = 19;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(child), kLowest);
  return true;
}

}  // namespace

std::string make_index_in_background(const std::filesystem::path& python,
                                     std::string_view torch_version) {
  if (!is_allowed()) return {};
  std::error_code error;
  const std::optional<InstalledTorch> torch = find_torch(python);
  if (!torch || torch->version != torch_version ||
      !std::filesystem::exists(torch->folder.parent_path() / "torchgen/packaged", error))
    return {};
  const std::filesystem::path work = work_folder_of(torch->folder, torch->folder);
  if (work.empty()) return {};
  std::filesystem::create_directories(work, error);
  const BackgroundLog log(work / kLog);
  if (log.file() < 0) return {};
  // It is also being made if the user runs the command.
  if (!is_in_use(work) && log.lock()) {
    if (log.is_recent())
      return "An index of it could not be made; `optrace source add --wheel` shows the reason.";
    log.clear();
    if (!start(python, log.file())) return {};
  }
  return "An index of it is being made from the wheel, in the background; it takes some minutes.";
}

}  // namespace optrace

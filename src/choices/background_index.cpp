#include "src/choices/background_index.h"

#include <array>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/resource.h>
#include <unistd.h>

#include "indexer/sources/work_folder.h"
#include "platform/error.h"
#include "platform/installed_torch.h"

namespace optrace {
namespace {

constexpr auto kRetryAfter = std::chrono::hours(24);
constexpr const char* kLog = "background.log";

bool is_allowed() {
  const char* const asked = std::getenv("OPTRACE_BACKGROUND");
  if (asked != nullptr) return std::string_view(asked) != "0";
  return std::getenv("CI") == nullptr;
}

/// Returns true if the attempt that left this log is not long ago.
bool failed_recently(const std::filesystem::path& log) {
  std::error_code error;
  const auto written = std::filesystem::last_write_time(log, error);
  return !error && std::filesystem::file_time_type::clock::now() - written < kRetryAfter;
}

/// Owns file actions and attributes of posix_spawn.
class SpawnSettings {
 public:
  explicit SpawnSettings(const std::filesystem::path& log) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, log.c_str(),
                                       O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    ::posix_spawn_file_actions_adddup2(&actions_, STDOUT_FILENO, STDERR_FILENO);
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

bool start(const std::filesystem::path& python, const std::filesystem::path& log) {
  std::error_code error;
  std::string command = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return false;
  std::string path = std::filesystem::absolute(python).string();
  std::array<std::string, 6> words = {command, "source", "add", "--wheel", "--python", path};
  std::array<char*, 7> arguments{};
  for (std::size_t i = 0; i < words.size(); ++i) arguments.at(i) = words.at(i).data();
  const SpawnSettings settings(log);
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
  if (!is_in_use(work)) {
    const std::filesystem::path log = work / kLog;
    if (failed_recently(log))
      return "An index of it could not be made; `optrace source add --wheel` shows the reason.";
    std::filesystem::create_directories(work, error);
    if (error || !start(python, log)) return {};
  }
  return "An index of it is being made from the wheel, in the background; it takes some minutes.";
}

}  // namespace optrace

#pragma once

#include <filesystem>
#include <string>

#include <sys/types.h>

namespace optrace {

/// A temporary folder that only this user can enter (0700, unpredictable name), gone with the
/// object, contents and all.
class PrivateFolder {
 public:
  /// Throws Error(failed) when the system's temporary folder takes no new one.
  PrivateFolder();
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// Whether what belongs to this user may be trusted as our own: the command's user, or root.
bool is_our_user(uid_t user);

/// The folder for what optrace may lose at any time and make again (probe plans, say):
/// $OPTRACE_CACHE_DIR, else $XDG_CACHE_HOME/optrace, else ~/.cache/optrace. Made with mode 0700,
/// but for a home that is not there. Empty when none can be made or it belongs to somebody else;
/// callers then work without a cache.
std::filesystem::path cache_folder();

/// Why nothing can be kept there, and what to do, in sentences; empty where it can.
std::string cache_problem();

}  // namespace optrace

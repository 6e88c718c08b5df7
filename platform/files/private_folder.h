#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "platform/files/descriptor.h"

namespace optrace {

/// A temporary folder that only this user can enter (unpredictable name). The destructor removes it
/// with its contents; those of processes that were killed are removed when the next one is made.
/// Each is locked while its process lives, and has the mode 01700, which nobody else gives a folder
/// of such a name.
class PrivateFolder {
 public:
  /// Throws Error(failed) if it can't be created in the system's temporary folder, Error(usage) if
  /// other users could change that (file_trust.h).
  PrivateFolder();
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  /// Removes all that exist, for a process that ends at once. Async-signal-safe.
  static void remove_all() noexcept;

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
  Descriptor lock_;
};

/// Returns true if files of this user are trusted as our own: the command's user, or root.
bool is_our_user(uid_t user);

/// Returns the folder for data that optrace can lose and make again at any time, such as probe
/// plans: $OPTRACE_CACHE_DIR, else $XDG_CACHE_HOME/optrace, else ~/.cache/optrace. Created with
/// mode 0700, unless the home folder does not exist. Empty if it can't be created, belongs to
/// another user, or can be written to by others; callers then work without a cache.
std::filesystem::path cache_folder();

/// Returns a folder below the cache, created with mode 0700 when needed; empty without a cache, or
/// if others can change it.
std::filesystem::path cache_subfolder(std::string_view name);

/// Returns why nothing can be cached there, and the remedy, in sentences; empty if it can.
std::string cache_problem();

}  // namespace optrace

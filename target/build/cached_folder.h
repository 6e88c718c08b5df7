#pragma once

#include <filesystem>

namespace optrace {

/// A new folder in a cache, which only this user can enter. The destructor removes it with its
/// contents unless replace() succeeded.
class NewFolder {
 public:
  /// Throws Error(failed) if it can't be created in `parent`.
  explicit NewFolder(const std::filesystem::path& parent);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Renames the folder to `path`, and removes a folder that was there before. Where the file
  /// system can exchange names, there is no moment without a folder of that name.
  void replace(const std::filesystem::path& path);

  /// Removes the new folders in `parent` of processes that were killed. Nobody may be making one.
  static void remove_left_behind(const std::filesystem::path& parent);

 private:
  std::filesystem::path path_;
};

}  // namespace optrace

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "platform/files/private_folder.h"

namespace optrace {

/// The intermediate results of indexing one source tree with one torch: generated code, precompiled
/// headers, the result of each unit. The next run repeats only the work whose inputs changed. The
/// folder is in the user's cache (mode 0700), may be deleted at any time, and is locked by one
/// optrace at a time.
class WorkFolder {
 public:
  /// Without a cache folder, uses a temporary folder that is removed with the object. Throws
  /// Error(usage) if another optrace is using the folder.
  WorkFolder(const std::filesystem::path& tree, const std::filesystem::path& torch_folder);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Makes the file or folder `name` in this folder with `make`, unless it was made with the same
  /// `key` and, if it is a file, still has the same size. An interrupted step is repeated. Returns
  /// true if it was made now.
  bool make_once(const std::string& name, std::uint64_t key,
                 const std::function<void(const std::filesystem::path&)>& make) const;

  bool is_made(const std::string& name, std::uint64_t key) const;
  void record_made(const std::string& name, std::uint64_t key) const;
  void remove_made(const std::string& name) const;

 private:
  std::filesystem::path path_;
  std::unique_ptr<PrivateFolder> temporary_;
  int lock_ = -1;
};

/// Returns the path of the work folder for a tree and a torch, which may not exist; empty without a
/// cache folder.
std::filesystem::path work_folder_of(const std::filesystem::path& tree,
                                     const std::filesystem::path& torch_folder);

/// Returns true if another process has locked the work folder.
bool is_in_use(const std::filesystem::path& work_folder);

/// A work folder in the cache.
struct KeptWork {
  std::filesystem::path path;
  std::filesystem::path tree;
  std::filesystem::path torch_folder;
};

/// Returns the work folders whose tree and torch exist, sorted by tree.
std::vector<KeptWork> list_kept_work();

/// Removes the work folders whose tree or torch no longer exists.
void remove_outdated_work();

/// Returns the size of a work folder in bytes.
std::uint64_t size_of(const KeptWork& work);

}  // namespace optrace

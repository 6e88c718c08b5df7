#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "platform/private_folder.h"

namespace optrace {

/// What is kept of the work on one source tree with one torch, so that the next run does only what
/// changed: generated code, precompiled headers, what each unit gave. It lies in the user's cache
/// (0700), may be deleted at any time, and is one optrace's at a time.
class WorkFolder {
 public:
  /// `what` is for people: the tree's path. Without a cache folder it is a temporary one, gone with
  /// the object. Throws Error(usage) when another optrace is at work in it.
  WorkFolder(const std::filesystem::path& tree, const std::filesystem::path& torch_folder);
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Makes the file or folder `name` in here with `make`, unless it was made with the same `key`
  /// and, if a file, has the size that it had. A step that was interrupted is done again. True if
  /// it was made now.
  bool make_once(const std::string& name, std::uint64_t key,
                 const std::function<void(const std::filesystem::path&)>& make) const;

  bool is_made(const std::string& name, std::uint64_t key) const;
  void note_made(const std::string& name, std::uint64_t key) const;
  void forget_made(const std::string& name) const;

 private:
  std::filesystem::path path_;
  std::unique_ptr<PrivateFolder> temporary_;
  int lock_ = -1;
};

/// One of those in the cache.
struct KeptWork {
  std::filesystem::path path;
  std::filesystem::path tree;
  std::filesystem::path torch_folder;
  std::uint64_t size = 0;  ///< Bytes.
};

/// By tree. Those of trees and torches that are gone are removed.
std::vector<KeptWork> list_kept_work();

}  // namespace optrace

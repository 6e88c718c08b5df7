#include "indexer/sources/work_folder.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "indexer/sources/file_hashes.h"
#include "platform/error.h"
#include "platform/files/cache_folders.h"
#include "platform/files/output_file.h"
#include "platform/files/whole_file.h"

namespace optrace {
namespace {

constexpr const char* kLock = "lock";
constexpr const char* kAbout = "about";  // The paths of the tree and of torch, one per line.

std::filesystem::path kept_work_folder() {
  const auto cache = cache_folder();
  return cache.empty() ? cache : cache / cache_folders::kIndexing;
}

std::filesystem::path key_path(const std::filesystem::path& folder, const std::string& name) {
  return folder / (name + ".made");
}

// Returns the record of a step's result. It includes the size, so that a file truncated since is
// not taken for complete.
std::string key_text(const std::filesystem::path& made, std::uint64_t key) {
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(made, error);
  const auto size = is_folder ? 0 : std::filesystem::file_size(made, error);
  return error ? "" : fmt::format("{:016x} {}\n", key, size);
}

// Returns -1 if another process holds the lock.
int try_lock(const std::filesystem::path& folder) {
  const int file = ::open((folder / kLock).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) {
    throw Error(ExitStatus::failed,
                fmt::format("cannot write {}: {}", folder.string(), describe_errno(errno)),
                "Free some space, or set OPTRACE_CACHE_DIR to another folder.");
  }
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    ::close(file);
    return -1;
  }
  return file;
}

std::uint64_t bytes_in(const std::filesystem::path& folder) {
  std::uint64_t size = 0;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code ignored;
    if (at->is_regular_file(ignored)) {
      const auto bytes = at->file_size(ignored);
      size += ignored ? 0 : bytes;
    }
  }
  return size;
}

std::vector<KeptWork> all_work() {
  std::vector<KeptWork> found;
  std::error_code error;
  for (std::filesystem::directory_iterator at(kept_work_folder(), error), end; !error && at != end;
       at.increment(error)) {
    std::ifstream about(at->path() / kAbout);
    std::string tree;
    std::string torch;
    std::getline(about, tree);
    std::getline(about, torch);
    found.push_back({.path = at->path(), .tree = tree, .torch_folder = torch});
  }
  return found;
}

bool is_outdated(const KeptWork& work) {
  std::error_code ignored;
  return !std::filesystem::exists(work.tree, ignored) ||
         !std::filesystem::exists(work.torch_folder, ignored);
}

}  // namespace

std::filesystem::path work_folder_of(const std::filesystem::path& tree,
                                     const std::filesystem::path& torch_folder) {
  const auto kept = cache_subfolder(cache_folders::kIndexing);
  if (kept.empty()) return {};
  Digest digest;
  digest.add(tree.string()).add(torch_folder.string());
  return kept / fmt::format("{:016x}", digest.value());
}

bool is_in_use(const std::filesystem::path& work_folder) {
  const int file = ::open((work_folder / kLock).c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return false;
  const bool locked = ::flock(file, LOCK_EX | LOCK_NB) != 0;
  ::close(file);
  return locked;
}

WorkFolder::WorkFolder(const std::filesystem::path& tree,
                       const std::filesystem::path& torch_folder) {
  path_ = work_folder_of(tree, torch_folder);
  if (path_.empty()) {
    temporary_ = std::make_unique<PrivateFolder>();
    path_ = temporary_->path();
    return;
  }
  std::error_code error;
  std::filesystem::create_directories(path_, error);
  lock_ = try_lock(path_);
  if (lock_ < 0) {
    throw Error(ExitStatus::usage, fmt::format("another optrace is indexing {}", tree.string()),
                "Wait until it has finished; its results are reused.");
  }
  try {
    write_file(path_ / kAbout, fmt::format("{}\n{}\n", tree.string(), torch_folder.string()));
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

WorkFolder::~WorkFolder() {
  if (lock_ >= 0) ::close(lock_);
}

bool WorkFolder::is_made(const std::string& name, std::uint64_t key) const {
  const std::string text = key_text(path_ / name, key);
  return !text.empty() && read_file(key_path(path_, name)).value_or("") == text;
}

void WorkFolder::record_made(const std::string& name, std::uint64_t key) const {
  write_file(key_path(path_, name), key_text(path_ / name, key));
}

void WorkFolder::remove_made(const std::string& name) const {
  std::error_code ignored;
  std::filesystem::remove(key_path(path_, name), ignored);
}

bool WorkFolder::make_once(const std::string& name, std::uint64_t key,
                           const std::function<void(const std::filesystem::path&)>& make) const {
  if (is_made(name, key)) return false;
  remove_made(name);
  const std::filesystem::path made = path_ / name;
  const std::filesystem::path half = path_ / (name + ".half");
  std::filesystem::remove_all(half);
  make(half);
  std::filesystem::remove_all(made);
  std::filesystem::rename(half, made);
  record_made(name, key);
  return true;
}

std::vector<KeptWork> list_kept_work() {
  std::vector<KeptWork> found = all_work();
  std::erase_if(found, [](const KeptWork& work) { return is_outdated(work); });
  std::ranges::sort(found, {}, &KeptWork::tree);
  return found;
}

void remove_outdated_work() {
  for (const KeptWork& work : all_work()) {
    if (!is_outdated(work)) continue;
    if (const int lock = try_lock(work.path); lock >= 0) {
      std::error_code ignored;
      std::filesystem::remove_all(work.path, ignored);
      ::close(lock);
    }
  }
}

std::uint64_t size_of(const KeptWork& work) {
  return bytes_in(work.path);
}

}  // namespace optrace

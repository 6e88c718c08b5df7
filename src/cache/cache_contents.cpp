#include "src/cache/cache_contents.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/files/cache_folders.h"
#include "platform/files/descriptor.h"
#include "platform/files/private_folder.h"
#include "platform/process/interrupt.h"

namespace optrace {
namespace {

using Path = std::filesystem::path;
using Time = std::chrono::system_clock::time_point;

constexpr std::string_view kHexDigits = "0123456789abcdef";
// The name of a folder that is being made or removed: a prefix and six letters.
constexpr std::string_view kNew = ".new-";
constexpr std::string_view kRemoved = ".removed-";
constexpr std::size_t kRandomLetters = 6;

bool consists_of(std::string_view text, std::string_view letters) {
  return !text.empty() && text.find_first_not_of(letters) == std::string_view::npos;
}

bool is_hash(std::string_view name, std::size_t digits) {
  return name.size() == digits && consists_of(name, kHexDigits);
}

bool is_unfinished(std::string_view name) {
  return std::ranges::any_of(std::array{kNew, kRemoved}, [&](std::string_view prefix) {
    return name.starts_with(prefix) && name.size() == prefix.size() + kRandomLetters;
  });
}

/// Returns the name without the random end that an OutputFile has until it is complete.
std::string_view final_name(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  const bool temporary = dot != std::string_view::npos && name.size() - dot == kRandomLetters + 1 &&
                         name.find('.') != dot;
  return temporary ? name.substr(0, dot) : name;
}

/// Inductor names its files by a hash.
bool is_generated_name(std::string_view name, std::initializer_list<std::string_view> endings) {
  constexpr std::size_t kShortestHash = 30;
  const std::string_view stem = name.substr(0, name.find('.'));
  return stem.size() >= kShortestHash &&
         consists_of(stem, "abcdefghijklmnopqrstuvwxyz0123456789") &&
         std::ranges::any_of(endings, [&](std::string_view end) { return name.ends_with(end); });
}

bool is_plan(std::string_view name) {
  // A hash of a file's content, or its state.
  constexpr std::size_t kShortest = 11;
  const std::string_view file = name.substr(0, name.find_first_not_of("0123456789abcdef-"));
  return file.size() >= kShortest && (name.ends_with(".content") || name.ends_with(".plan") ||
                                      name.ends_with(".branch_targets"));
}

constexpr std::size_t kBuildDigits = 32;
bool is_build(std::string_view name) {
  return is_hash(name, kBuildDigits);
}

constexpr std::size_t kIndexDigits = 16;
bool is_index(std::string_view name) {
  constexpr std::string_view kEnd = ".index";
  return name.ends_with(kEnd) && is_hash(name.substr(0, name.size() - kEnd.size()), kIndexDigits);
}

constexpr std::size_t kTreeDigits = 16;
bool is_work(std::string_view name) {
  return is_hash(name, kTreeDigits);
}

bool is_program(std::string_view name) {
  return consists_of(name, "0123456789-");
}

bool is_kernel_list(std::string_view name) {
  return is_generated_name(name, {".json"});
}

bool is_generated_file(std::string_view name) {
  return is_generated_name(name, {".py", ".cpp"});
}

struct Kind {
  std::string_view folder;
  std::string_view contents;
  bool of_folders;  // Its entries are folders, not files.
  bool (*is_entry)(std::string_view name);
};

constexpr auto kKinds = std::to_array<Kind>({
    {cache_folders::kTraces, "traces of the last programs", true, is_program},
    {cache_folders::kOpAgents, "libraries that record ops, built for a torch", true, is_build},
    {cache_folders::kEmulatedDevices, "emulated CUDA devices, built for a torch", true, is_build},
    {cache_folders::kActivityAgents, "libraries that record the work of GPUs, built for a torch",
     true, is_build},
    {cache_folders::kCudaCalls,
     "libraries that record calls of CUDA's libraries, built for a torch", true, is_build},
    {cache_folders::kPlans, "where probes can be placed in libraries", false, is_plan},
    {cache_folders::kIndexes, "decompressed indexes that came with optrace", false, is_index},
    {cache_folders::kIndexing, "intermediate results of indexing a source tree", true, is_work},
    {cache_folders::kKernelOrigins, "what torch.compile fused into its kernels", false,
     is_kernel_list},
    {cache_folders::kGeneratedCode, "copies of the code that torch.compile generated", false,
     is_generated_file},
});

Time changed_at(const struct stat& status) {
  return std::chrono::system_clock::from_time_t(status.st_mtim.tv_sec);
}

void add_file(const Path& path, CacheEntry& entry) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return;
  if (S_ISREG(status.st_mode)) entry.bytes += static_cast<std::uint64_t>(status.st_size);
  entry.changed = std::max(entry.changed, changed_at(status));
}

CacheEntry describe(const Path& path) {
  CacheEntry entry;
  entry.name = path.filename().string();
  add_file(path, entry);
  std::error_code error;
  // Doesn't follow links.
  for (std::filesystem::recursive_directory_iterator at(path, error), end; !error && at != end;
       at.increment(error))
    add_file(at->path(), entry);
  return entry;
}

std::filesystem::file_type type_of(const Path& path) {
  std::error_code ignored;
  return std::filesystem::symlink_status(path, ignored).type();
}

bool is_ours(const Kind& kind, const std::filesystem::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  const auto type = type_of(entry.path());
  if (type == std::filesystem::file_type::directory)
    return is_unfinished(name) || (kind.of_folders && kind.is_entry(name));
  return type == std::filesystem::file_type::regular && !kind.of_folders &&
         kind.is_entry(final_name(name));
}

CachePart list(const Kind& kind, const Path& cache, std::optional<Time> before) {
  CachePart part{.folder = kind.folder, .contents = kind.contents, .entries = {}};
  const Path folder = cache / kind.folder;
  const auto type = type_of(folder);
  if (type != std::filesystem::file_type::directory) {
    part.foreign = type == std::filesystem::file_type::not_found ? 0 : 1;
    return part;
  }
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    InterruptGuard::throw_if_interrupted();
    if (!is_ours(kind, *at)) {
      ++part.foreign;
      continue;
    }
    CacheEntry entry = describe(at->path());
    if (!before || entry.changed < *before) part.entries.push_back(std::move(entry));
  }
  std::ranges::sort(part.entries, {}, &CacheEntry::name);
  return part;
}

/// Holds a lock that the users of a file or folder take; none if another process holds it.
class Lock {
 public:
  explicit Lock(const Path& path) : file_(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC)) {
    held_elsewhere_ = file_ && ::flock(file_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  }
  bool held_elsewhere() const { return held_elsewhere_; }

 private:
  Descriptor file_;
  bool held_elsewhere_ = false;
};

/// Returns the process in the name of a program's folder of traces, while it runs; else 0.
pid_t writer_of(std::string_view name) {
  pid_t process = 0;
  const std::string_view number = name.substr(name.rfind('-') + 1);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), process);
  const bool alive =
      error == std::errc() && process > 0 && (::kill(process, 0) == 0 || errno == EPERM);
  return alive ? process : 0;
}

/// Renames the entry first, so that no other process finds a part of it. Throws Error(failed).
void remove(const Path& folder, const std::string& name) {
  std::error_code error;
  if (type_of(folder / name) == std::filesystem::file_type::regular) {
    if (!std::filesystem::remove(folder / name, error) && error)
      throw Error(ExitStatus::failed, error.message(), "");
    return;
  }
  std::string aside = (folder / fmt::format("{}XXXXXX", kRemoved)).string();
  const bool moved = ::mkdtemp(aside.data()) != nullptr &&
                     ::rename((folder / name).c_str(), (Path(aside) / name).c_str()) == 0;
  const int reason = errno;
  std::filesystem::remove_all(aside, error);
  if (!moved) throw Error(ExitStatus::failed, describe_errno(reason), "");
  if (error) throw Error(ExitStatus::failed, error.message(), "");
}

class Cleaning {
 public:
  Cleaning(const CachePart& part, Path folder)
      : part_(part), folder_(std::move(folder)), lock_(folder_) {}

  CleanedPart run() {
    CleanedPart result{.folder = part_.folder, .kept = {}};
    for (const CacheEntry& entry : part_.entries) {
      InterruptGuard::throw_if_interrupted();
      if (std::string reason = why_kept(entry.name); !reason.empty()) {
        result.kept.push_back({folder_ / entry.name, std::move(reason)});
        continue;
      }
      ++result.removed;
      result.bytes += entry.bytes;
    }
    return result;
  }

 private:
  // Removes the entry, or returns why it is still there.
  std::string why_kept(const std::string& name) const {
    if (lock_.held_elsewhere()) return "another optrace is building for it";
    const Lock work(folder_ / name / "lock");
    if (work.held_elsewhere()) return "another optrace is indexing";
    if (part_.folder == cache_folders::kTraces)
      if (const pid_t process = writer_of(name); process != 0)
        return fmt::format("process {}, which writes it, is still running", process);
    try {
      remove(folder_, name);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }

  const CachePart& part_;
  const Path folder_;
  const Lock lock_;
};

}  // namespace

std::vector<CachePart> list_cache(std::optional<std::chrono::seconds> older_than) {
  std::vector<CachePart> parts;
  const Path cache = cache_folder();
  if (cache.empty()) return parts;
  std::optional<Time> before;
  if (older_than) before = std::chrono::system_clock::now() - *older_than;
  for (const Kind& kind : kKinds) parts.push_back(list(kind, cache, before));
  return parts;
}

std::uint64_t bytes_of(const CachePart& part) {
  std::uint64_t bytes = 0;
  for (const CacheEntry& entry : part.entries) bytes += entry.bytes;
  return bytes;
}

CleanedPart clean(const CachePart& part) {
  const Path folder = cache_folder() / part.folder;
  // The folder was there when it was listed; only this user can have replaced it since.
  if (part.entries.empty() || type_of(folder) != std::filesystem::file_type::directory)
    return {.folder = part.folder, .kept = {}};
  return Cleaning(part, folder).run();
}

std::optional<std::chrono::seconds> parse_age(std::string_view text) {
  constexpr std::uint64_t kMost = 100'000;
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (error != std::errc() || number > kMost) return std::nullopt;
  if (unit == "m") return std::chrono::minutes(number);
  if (unit == "h") return std::chrono::hours(number);
  if (unit == "d") return std::chrono::days(number);
  if (unit == "w") return std::chrono::weeks(number);
  return std::nullopt;
}

}  // namespace optrace

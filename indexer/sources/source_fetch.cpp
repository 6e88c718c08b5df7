#include "indexer/sources/source_fetch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/files/private_folder.h"
#include "platform/files/whole_file.h"
#include "platform/process/child_process.h"

namespace optrace {
namespace {

// The folders needed by the units, the generators and the units' includes. git adds files at the
// top.
constexpr std::array<const char*, 7> kNeededFolders = {
    "aten", "c10", "caffe2/serialize", "third_party/miniz-3.0.2", "tools", "torch", "torchgen"};

constexpr std::array<std::string_view, 5> kSchemes = {"https://", "http://", "ssh://", "git://",
                                                      "file://"};

bool is_commit(std::string_view text) {
  return text.size() == 40 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Returns the argument for git. A folder becomes a file:// URL, since git otherwise copies a local
// repository completely.
std::string remote_url(const std::string& remote) {
  const auto has_scheme = [&](auto scheme) {
    return remote.starts_with(scheme) && remote.size() > scheme.size();
  };
  if (std::ranges::any_of(kSchemes, has_scheme)) return remote;
  std::error_code error;
  if (!remote.starts_with('-') && std::filesystem::is_directory(remote, error))
    return "file://" + std::filesystem::absolute(remote).lexically_normal().string();
  throw Error(ExitStatus::usage, fmt::format("'{}' is not a repository", remote),
              "Give a URL that begins with https://, http://, ssh://, git:// or file://, or an "
              "existing folder.");
}

/// A folder that is removed with the object unless finish() has renamed it.
class HalfFolder {
 public:
  explicit HalfFolder(const std::filesystem::path& whole) : whole_(whole) {
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::absolute(whole).parent_path(), error);
    std::string pattern = whole.string() + ".XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw Error(ExitStatus::usage,
                  fmt::format("cannot make {}: {}", whole.string(), describe_errno(errno)),
                  "Name a writable folder with --folder.");
    }
    half_ = pattern;
  }
  ~HalfFolder() {
    std::error_code ignored;
    if (!half_.empty()) std::filesystem::remove_all(half_, ignored);
  }
  HalfFolder(const HalfFolder&) = delete;
  HalfFolder& operator=(const HalfFolder&) = delete;

  const std::filesystem::path& path() const { return half_; }
  void finish() {
    std::error_code error;
    std::filesystem::rename(half_, whole_, error);
    if (error) {
      throw Error(ExitStatus::failed,
                  fmt::format("cannot make {}: {}", whole_.string(), error.message()),
                  "Name a new or empty folder with --folder.");
    }
    half_.clear();
  }

 private:
  std::filesystem::path whole_;
  std::filesystem::path half_;
};

class Git {
 public:
  Git(std::filesystem::path folder, std::string url)
      : folder_(std::move(folder)), url_(std::move(url)) {}

  void run(const std::vector<std::string>& arguments, const std::string& what) const {
    const PrivateFolder scratch;
    const auto said = scratch.path() / "said";
    ChildProcess::Options options;
    // The repository is given explicitly, so GIT_DIR has no effect. No program from a configuration
    // is run.
    options.arguments = {"git",
                         "--git-dir=" + (folder_ / ".git").string(),
                         "--work-tree=" + folder_.string(),
                         "-c",
                         "core.hooksPath=/dev/null",
                         "-c",
                         "core.fsmonitor=false",
                         "-c",
                         "advice.detachedHead=false",
                         "-c",
                         "gc.auto=0"};
    options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
    options.environment = {{"GIT_TERMINAL_PROMPT", "0"},
                           {"GIT_ALLOW_PROTOCOL", "https:http:ssh:git:file"},
                           {"LC_ALL", "C"}};
    options.working_folder = folder_.string();
    const int output = ::open(said.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    options.descriptors = {{output, STDOUT_FILENO}, {output, STDERR_FILENO}};
    int status = 0;
    try {
      ChildProcess child(options);
      ::close(output);
      status = child.wait();
    } catch (const Error& error) {
      ::close(output);
      if (error.status() == ExitStatus::interrupted) throw;
      throw Error(ExitStatus::usage, error.what(),
                  "The source is fetched with git: install it, or give a source tree to `optrace "
                  "source add`.");
    }
    if (status != 0) fail(what, status, read_file(said).value_or(""));
  }

 private:
  [[noreturn]] void fail(const std::string& what, int status, std::string said) const {
    const auto says = [&](const char* part) { return said.find(part) != std::string::npos; };
    std::string remedy = "Check the network, or name another repository with --remote.";
    if (says("not our ref") || says("couldn't find remote ref") || says("unadvertised object")) {
      remedy =
          "The commit is not in this repository. If torch was built from a private branch, name "
          "its repository with --remote.";
    } else if (says("No space left")) {
      remedy =
          "Free some space (300 MB are needed), or name a folder on another disk with --folder.";
    }
    constexpr std::size_t kEnough = 600;
    said.erase(said.find_last_not_of(" \n") + 1);
    if (said.size() > kEnough) said = "... " + said.substr(said.size() - kEnough);
    throw Error(
        ExitStatus::failed,
        fmt::format("{} from {} failed ({}): {}", what, url_, describe_wait_status(status), said),
        remedy);
  }

  std::filesystem::path folder_;
  std::string url_;
};

}  // namespace

std::filesystem::path own_source_folder(const std::string& torch_version) {
  const auto environment_folder = [](const char* name) {
    const char* value = std::getenv(name);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  const std::string name = "pytorch-" + torch_version;
  if (const auto data = environment_folder("XDG_DATA_HOME"); data.is_absolute())
    return data / "optrace/sources" / name;
  const auto home = environment_folder("HOME");
  if (home.empty()) {
    throw Error(ExitStatus::usage, "there is no folder for sources: HOME is not set",
                "Name a folder with --folder.");
  }
  return home / ".local/share/optrace/sources" / name;
}

std::string checked_out_commit(const std::filesystem::path& folder) {
  const auto git = folder / ".git";
  const auto first_word = [](const std::filesystem::path& path) {
    std::string word;
    std::ifstream(path) >> word;
    return word;
  };
  std::string head = first_word(git / "HEAD");
  if (head == "ref:") {
    std::string name;
    std::ifstream(git / "HEAD") >> head >> name;
    head = first_word(git / name);
    std::ifstream packed(git / "packed-refs");
    for (std::string line; head.empty() && std::getline(packed, line);)
      if (line.ends_with(" " + name)) head = line.substr(0, line.find(' '));
  }
  return is_commit(head) ? head : "";
}

void fetch_source(const FetchOptions& options, ProgressReporter& progress) {
  if (!is_commit(options.commit)) {
    throw Error(
        ExitStatus::usage,
        fmt::format("the commit that torch was built from is unknown ('{}')", options.commit),
        "Give its source to `optrace source add`.");
  }
  const std::string url = remote_url(options.remote);
  if (checked_out_commit(options.folder) == options.commit) return;
  std::error_code error;
  if (std::filesystem::exists(options.folder, error) &&
      !std::filesystem::is_empty(options.folder, error)) {
    throw Error(
        ExitStatus::usage,
        fmt::format("{} exists and is not the commit {}", options.folder.string(), options.commit),
        "Remove it, or name another folder with --folder.");
  }
  HalfFolder half(options.folder);
  const Git git(half.path(), url);
  git.run({"init", "--quiet"}, "creating a repository");
  git.run({"remote", "add", "origin", url}, "creating a repository");
  for (const auto& [key, value] : {std::pair("remote.origin.promisor", "true"),
                                   std::pair("remote.origin.partialclonefilter", "blob:none")}) {
    git.run({"config", key, value}, "creating a repository");
  }
  std::vector<std::string> sparse = {"sparse-checkout", "set", "--cone"};
  sparse.insert(sparse.end(), kNeededFolders.begin(), kNeededFolders.end());
  git.run(sparse, "creating a repository");
  progress.begin(fmt::format("Fetching commit {} from {}", options.commit, url));
  git.run({"fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules",
           "--filter=blob:none", "origin", options.commit},
          "fetching commit " + options.commit);
  progress.begin("Fetching the files of aten, c10, torch, torchgen and tools");
  git.run({"checkout", "--quiet", "--detach", options.commit}, "fetching files");
  half.finish();
}

}  // namespace optrace

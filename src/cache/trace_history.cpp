#include "src/cache/trace_history.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/files/cache_folders.h"
#include "platform/files/private_folder.h"
#include "src/terminal/standard_output.h"

namespace optrace {
namespace {

// Creates a folder that only this user can enter. An existing one is left as it is.
void make_folder(const std::filesystem::path& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return;
  throw Error(ExitStatus::failed,
              fmt::format("{} can't be created: {}", folder.string(), describe_errno(errno)),
              "Save the trace with --trace FILE, or set OPTRACE_CACHE_DIR to another folder.");
}

std::filesystem::path traces_folder() {
  if (cache_folder().empty()) throw Error(ExitStatus::failed, cache_problem(), "");
  std::filesystem::path folder = cache_subfolder(cache_folders::kTraces);
  if (folder.empty()) {
    throw Error(ExitStatus::failed,
                fmt::format("the folder {} in the cache can't be used", cache_folders::kTraces),
                "Only you may be able to write to it. Or save the trace with --trace FILE.");
  }
  return folder;
}

// The folder of a program: the time in UTC, so that the order of names is that of time, and the
// number of this process.
std::string folder_name() {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  return fmt::format("{:%Y%m%d-%H%M%S}-{}", fmt::gmtime(now), ::getpid());
}

bool is_folder_of_a_program(const std::filesystem::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  return entry.symlink_status().type() == std::filesystem::file_type::directory &&
         name.find_first_not_of("0123456789-") == std::string::npos;
}

// Removes the folders of all but the last programs. Others may remove them at the same time.
void remove_old(const std::filesystem::path& traces) {
  std::error_code ignored;
  std::vector<std::filesystem::path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(traces, ignored))
    if (is_folder_of_a_program(entry)) folders.push_back(entry.path());
  std::ranges::sort(folders, std::greater{});
  for (std::size_t i = kCachedPrograms; i < folders.size(); ++i)
    std::filesystem::remove_all(folders[i], ignored);
}

std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    plain += letter || c == '.' || c == '-' ? c : '_';
  }
  const std::size_t begin = plain.find_first_not_of(".-");
  constexpr std::size_t kLongest = 100;  // Room for words that are appended, below 255.
  return begin == std::string::npos ? "program" : plain.substr(begin, kLongest);
}

}  // namespace

std::filesystem::path cached_trace_file(std::string_view name) {
  const std::filesystem::path traces = traces_folder();
  const std::filesystem::path folder = traces / folder_name();
  make_folder(folder);
  remove_old(traces);
  return folder / (plain_name(name) + ".trace");
}

void announce_cached_traces(std::span<const std::filesystem::path> files) {
  if (files.empty()) return;
  write_message(files.size() == 1 ? fmt::format("the trace is in {}", files[0].string())
                                  : fmt::format("the traces of {} processes are in {}",
                                                files.size(), files[0].parent_path().string()));
}

}  // namespace optrace

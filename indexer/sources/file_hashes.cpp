#include "indexer/sources/file_hashes.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

namespace optrace {
namespace {

std::uint64_t read_and_hash(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  struct stat status{};
  std::string bytes;
  ssize_t size = -1;
  if (::fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
    bytes.resize(static_cast<std::size_t>(status.st_size));
    size = ::read(file, bytes.data(), bytes.size());
  }
  ::close(file);
  if (size != status.st_size) return 0;
  return std::max<std::uint64_t>(XXH3_64bits(bytes.data(), bytes.size()), 1);
}

}  // namespace

Digest& Digest::add(std::string_view text) {
  return add(text.size()).add(XXH3_64bits(text.data(), text.size()));
}

Digest& Digest::add(std::uint64_t number) {
  const std::array<std::uint64_t, 2> both{value_, number};
  value_ = XXH3_64bits(both.data(), sizeof both);
  return *this;
}

std::uint64_t FileHashes::of(const std::string& path) {
  const auto [at, is_new] = known_.try_emplace(path, 0);
  if (is_new) {
    at->second = read_and_hash(path);
    std::error_code error;
    const auto written = std::filesystem::last_write_time(path, error);
    if (error || written > since_) at->second = 0;
  }
  return at->second;
}

void FileHashes::trust(const std::string& path) {
  known_[path] = read_and_hash(path);
}

std::uint64_t FileHashes::of_all(const std::filesystem::path& path) {
  std::vector<std::string> files;
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) files.push_back(path.string());
  for (std::filesystem::recursive_directory_iterator at(path, error), end; !error && at != end;
       at.increment(error)) {
    if (at->is_regular_file(error) && at->path().extension() != ".pyc")
      files.push_back(at->path().string());
  }
  std::ranges::sort(files);
  Digest digest;
  for (const auto& file : files)
    digest.add(std::filesystem::path(file).lexically_relative(path).string()).add(of(file));
  return digest.value();
}

}  // namespace optrace

#include "indexer/store/packed_index.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <sys/stat.h>
#include <xxhash.h>
#include <zstd.h>

#include "platform/cache_folders.h"
#include "platform/error.h"
#include "platform/mapped_file.h"
#include "platform/output_file.h"
#include "platform/private_folder.h"

namespace optrace {
namespace {

constexpr const char* kExtension = ".zst";

// Ten times the size of an index.
constexpr std::uint64_t kMaxIndex = std::uint64_t{400} << 20;

/// Returns the path of the decompressed file, whose name changes with the compressed file; empty
/// without a cache.
std::filesystem::path unpacked_path(const std::filesystem::path& packed) {
  const std::filesystem::path folder = cache_subfolder(cache_folders::kIndexes);
  if (folder.empty()) return {};
  struct stat status{};
  ::stat(packed.c_str(), &status);
  const std::string file = fmt::format("{} {} {}.{:09}", packed.string(), status.st_size,
                                       status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
  return folder / fmt::format("{:016x}.index", XXH3_64bits(file.data(), file.size()));
}

void unpack(const std::filesystem::path& packed, const std::filesystem::path& path) {
  const auto fail = [&](std::string_view why) {
    throw Error(ExitStatus::usage,
                fmt::format("{} is not a compressed index: {}", packed.string(), why),
                "Install optrace again.");
  };
  const MappedFile file(packed);
  const std::span<const std::byte> bytes = file.bytes();
  const std::uint64_t size = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
  if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR || size > kMaxIndex)
    fail("it has no valid size");
  std::string content(size, '\0');
  const std::size_t got =
      ZSTD_decompress(content.data(), content.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(got) != 0) fail(ZSTD_getErrorName(got));
  if (got != content.size()) fail("it is truncated");
  OutputFile output(path);
  output.write(std::string_view(content));
  output.commit();
}

}  // namespace

bool is_packed_index(const std::filesystem::path& path) {
  return path.extension() == kExtension;
}

Index open_packed_index(const std::filesystem::path& path) {
  const std::filesystem::path unpacked = unpacked_path(path);
  if (unpacked.empty()) {
    // A mapped file can be removed.
    const PrivateFolder folder;
    unpack(path, folder.path() / path.stem());
    return Index::open(folder.path() / path.stem());
  }
  std::error_code error;
  if (std::filesystem::exists(unpacked, error)) {
    try {
      return Index::open(unpacked);
    } catch (const Error&) {
      // The cached file is damaged; it is made again.
    }
  }
  unpack(path, unpacked);
  return Index::open(unpacked);
}

}  // namespace optrace

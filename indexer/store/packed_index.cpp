#include "indexer/store/packed_index.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <lzma.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "platform/cache_folders.h"
#include "platform/error.h"
#include "platform/mapped_file.h"
#include "platform/output_file.h"
#include "platform/private_folder.h"

namespace optrace {
namespace {

constexpr const char* kPackedExtension = ".xz";

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

/// Decodes an xz file piece by piece.
class Decoder {
 public:
  Decoder() : status_(lzma_stream_decoder(&stream_, kMaxMemory, LZMA_FAIL_FAST)) {}
  ~Decoder() { lzma_end(&stream_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// Returns false if `bytes` is not a complete xz file, or has more than kMaxIndex bytes.
  bool decode(std::span<const std::byte> bytes, OutputFile& output) {
    stream_.next_in = reinterpret_cast<const std::uint8_t*>(bytes.data());
    stream_.avail_in = bytes.size();
    std::vector<std::byte> piece(kPiece);
    while (status_ == LZMA_OK && stream_.total_out <= kMaxIndex) {
      stream_.next_out = reinterpret_cast<std::uint8_t*>(piece.data());
      stream_.avail_out = piece.size();
      status_ = lzma_code(&stream_, LZMA_FINISH);
      output.write(std::span(piece).first(piece.size() - stream_.avail_out));
    }
    return status_ == LZMA_STREAM_END && stream_.avail_in == 0;
  }

 private:
  static constexpr std::uint64_t kMaxMemory = std::uint64_t{128} << 20;
  static constexpr std::size_t kPiece = std::size_t{1} << 20;

  lzma_stream stream_ = LZMA_STREAM_INIT;
  lzma_ret status_;
};

void unpack(const std::filesystem::path& packed, const std::filesystem::path& path) {
  const MappedFile file(packed);
  OutputFile output(path);
  if (!Decoder().decode(file.bytes(), output))
    throw Error(ExitStatus::usage,
                fmt::format("{} is not a complete compressed index", packed.string()),
                "Install optrace again.");
  output.commit();
}

/// Opens a decompressed index; returns nothing if it is missing or damaged.
std::optional<Index> open_undamaged(const std::filesystem::path& path) {
  try {
    return Index::open(path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

bool is_packed_index(const std::filesystem::path& path) {
  return path.extension() == kPackedExtension;
}

Index open_packed_index(const std::filesystem::path& path) {
  const std::filesystem::path unpacked = unpacked_path(path);
  if (unpacked.empty()) {
    // A mapped file can be removed.
    const PrivateFolder folder;
    unpack(path, folder.path() / path.stem());
    return Index::open(folder.path() / path.stem());
  }
  if (std::optional<Index> index = open_undamaged(unpacked)) return std::move(*index);
  unpack(path, unpacked);
  return Index::open(unpacked);
}

}  // namespace optrace

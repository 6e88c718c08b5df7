#include "indexer/store/packed_index.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <lzma.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "platform/error.h"
#include "platform/files/cache_folders.h"
#include "platform/files/mapped_file.h"
#include "platform/files/output_file.h"
#include "platform/files/private_folder.h"
#include "platform/files/whole_file.h"

namespace optrace {
namespace {

constexpr const char* kPackedExtension = ".part";

// Six times the size of two indexes.
constexpr std::uint64_t kMaxDecoded = std::uint64_t{400} << 20;

/// Where an index is.
struct Part {
  std::filesystem::path stream;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

Error no_index(const std::filesystem::path& file) {
  return {ExitStatus::usage, fmt::format("{} is not a complete compressed index", file.string()),
          "Install optrace again."};
}

Part read_part(const std::filesystem::path& file) {
  std::istringstream words(read_file(file).value_or(""));
  std::string name;
  Part part;
  if (!(words >> name >> part.offset >> part.size) || part.offset > kMaxDecoded ||
      part.size > kMaxDecoded)
    throw no_index(file);
  part.stream = file.parent_path() / std::filesystem::path(name).filename();
  return part;
}

/// Returns the path of the decompressed file, whose name changes with the compressed file; empty
/// without a cache.
std::filesystem::path unpacked_path(const Part& part) {
  const std::filesystem::path folder = cache_subfolder(cache_folders::kIndexes);
  if (folder.empty()) return {};
  struct stat status{};
  ::stat(part.stream.c_str(), &status);
  const std::string file =
      fmt::format("{} {} {}.{:09} {} {}", part.stream.string(), status.st_size,
                  status.st_mtim.tv_sec, status.st_mtim.tv_nsec, part.offset, part.size);
  return folder / fmt::format("{:016x}.index", XXH3_64bits(file.data(), file.size()));
}

/// Decodes an xz file piece by piece.
class Decoder {
 public:
  Decoder() : status_(lzma_stream_decoder(&stream_, kMaxMemory, LZMA_FAIL_FAST)) {}
  ~Decoder() { lzma_end(&stream_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// Writes a part of what `bytes` decode to. Returns false if they have no such part.
  bool decode(std::span<const std::byte> bytes, const Part& part, OutputFile& output) {
    stream_.next_in = reinterpret_cast<const std::uint8_t*>(bytes.data());
    stream_.avail_in = bytes.size();
    std::vector<std::byte> piece(kPiece);
    const std::uint64_t end = part.offset + part.size;
    while (status_ == LZMA_OK && stream_.total_out < end) {
      const std::uint64_t first = stream_.total_out;
      stream_.next_out = reinterpret_cast<std::uint8_t*>(piece.data());
      stream_.avail_out = piece.size();
      status_ = lzma_code(&stream_, LZMA_FINISH);
      const auto in_piece = [&](std::uint64_t position) {
        return std::clamp(position, first, std::uint64_t{stream_.total_out}) - first;
      };
      const std::uint64_t start = in_piece(part.offset);
      output.write(std::span(piece).subspan(start, in_piece(end) - start));
    }
    return stream_.total_out >= end;
  }

 private:
  static constexpr std::uint64_t kMaxMemory = std::uint64_t{128} << 20;
  static constexpr std::size_t kPiece = std::size_t{1} << 20;

  lzma_stream stream_ = LZMA_STREAM_INIT;
  lzma_ret status_;
};

void unpack(const Part& part, const std::filesystem::path& path) {
  const MappedFile file(part.stream);
  OutputFile output(path);
  if (!Decoder().decode(file.bytes(), part, output)) throw no_index(part.stream);
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
  const Part part = read_part(path);
  const std::filesystem::path unpacked = unpacked_path(part);
  if (unpacked.empty()) {
    // A mapped file can be removed.
    const PrivateFolder folder;
    unpack(part, folder.path() / path.stem());
    return Index::open(folder.path() / path.stem());
  }
  if (std::optional<Index> index = open_undamaged(unpacked)) return std::move(*index);
  unpack(part, unpacked);
  return Index::open(unpacked);
}

}  // namespace optrace

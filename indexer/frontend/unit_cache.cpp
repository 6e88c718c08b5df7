#include "indexer/frontend/unit_cache.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include <fmt/core.h>
#include <xxhash.h>
#include <zstd.h>

#include "platform/error.h"
#include "platform/files/output_file.h"
#include "platform/files/whole_file.h"

namespace optrace {
namespace {

// Format of an entry: the magic, which changes with the format; XXH3 of all that follows; the
// identity; the size of the first of two zstd frames; the frames. The first frame contains the
// dependencies, each as 8 bytes of hash and a NUL-terminated path, the second the findings.
constexpr std::string_view kMagic = "OPTUNIT1";
constexpr std::size_t kHeader = 4 * sizeof(std::uint64_t);
constexpr const char* kExtension = ".unit";

// More than any unit produces (100 MB), but small enough for memory.
constexpr std::uint64_t kMaxFindings = std::uint64_t{1} << 31;

// Speed matters more than size: entries are small compared to the precompiled headers.
constexpr int kCompressionLevel = 1;

std::uint64_t number_at(std::string_view bytes, std::size_t at) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

void append_number(std::uint64_t number, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::string compress(std::string_view text) {
  std::string compressed(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size = ZSTD_compress(compressed.data(), compressed.size(), text.data(),
                                         text.size(), kCompressionLevel);
  if (ZSTD_isError(size) != 0) {
    throw Error(ExitStatus::failed, fmt::format("zstd: {}", ZSTD_getErrorName(size)),
                "Close some programs and try again.");
  }
  compressed.resize(size);
  return compressed;
}

std::optional<std::string> decompress(std::string_view compressed) {
  const auto size = ZSTD_getFrameContentSize(compressed.data(), compressed.size());
  if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR || size > kMaxFindings)
    return std::nullopt;
  std::string text(static_cast<std::size_t>(size), '\0');
  const std::size_t got =
      ZSTD_decompress(text.data(), text.size(), compressed.data(), compressed.size());
  if (ZSTD_isError(got) != 0 || got != text.size()) return std::nullopt;
  return text;
}

struct Split {
  std::set<std::string> dependencies;
  std::string findings;
};

// Returns 0 if the file does not exist.
std::uint64_t time_of(const std::string& path) {
  std::error_code error;
  const auto written = std::filesystem::last_write_time(path, error);
  return error ? 0 : static_cast<std::uint64_t>(written.time_since_epoch().count());
}

Split split(std::string_view result) {
  Split parts;
  while (!result.empty()) {
    const std::size_t size = std::min(result.find('\n'), result.size() - 1) + 1;
    const std::string_view line = result.substr(0, size);
    result.remove_prefix(size);
    if (line.starts_with("D\t"))
      parts.dependencies.emplace(line.substr(2, line.find('\n') - 2));
    else
      parts.findings += line;
  }
  return parts;
}

}  // namespace

std::string CachedUnit::findings() const {
  auto text = decompress(compressed_);
  if (!text) {
    throw Error(ExitStatus::failed, "the cached result of a unit is corrupt",
                "Run the command again.");
  }
  return *std::move(text);
}

UnitCache::UnitCache(std::filesystem::path folder, FileHashes& hashes)
    : folder_(std::move(folder)), hashes_(hashes) {
  std::error_code ignored;
  std::filesystem::create_directories(folder_, ignored);
}

std::filesystem::path UnitCache::path_of(std::string_view name) const {
  return folder_ / fmt::format("{:016x}{}", XXH3_64bits(name.data(), name.size()), kExtension);
}

std::optional<CachedUnit> UnitCache::find(std::string_view name, std::uint64_t identity) const {
  const std::string entry = read_file(path_of(name)).value_or("");
  const std::string_view bytes = entry;
  if (bytes.size() < kHeader || !bytes.starts_with(kMagic) ||
      number_at(bytes, 8) != XXH3_64bits(bytes.data() + 16, bytes.size() - 16) ||
      number_at(bytes, 16) != identity || number_at(bytes, 24) > bytes.size() - kHeader) {
    return std::nullopt;
  }
  const auto first = static_cast<std::size_t>(number_at(bytes, 24));
  const auto dependencies = decompress(bytes.substr(kHeader, first));
  const std::string_view findings = bytes.substr(kHeader + first);
  if (!dependencies || ZSTD_getFrameContentSize(findings.data(), findings.size()) > kMaxFindings)
    return std::nullopt;
  Digest digest;
  Digest times;
  digest.add(identity);
  std::string_view rest = *dependencies;
  while (rest.size() > sizeof(std::uint64_t)) {
    const std::uint64_t then = number_at(rest, 0);
    rest.remove_prefix(sizeof then);
    const std::string path(rest.substr(0, rest.find('\0')));
    rest.remove_prefix(std::min(rest.size(), path.size() + 1));
    if (then == 0 || hashes_.of(path) != then) return std::nullopt;
    digest.add(path).add(then);
    times.add(time_of(path));
  }
  return CachedUnit(digest.value(), times.value(), std::string(findings));
}

CachedUnit UnitCache::keep(std::string_view name, std::uint64_t identity, const std::string& source,
                           std::string_view result) const {
  Split parts = split(result);
  parts.dependencies.insert(source);
  Digest digest;
  Digest times;
  digest.add(identity);
  std::string dependencies;
  for (const auto& path : parts.dependencies) {
    const std::uint64_t now = hashes_.of(path);
    digest.add(path).add(now);
    times.add(time_of(path));
    append_number(now, dependencies);
    dependencies.append(path).push_back('\0');
  }
  const std::string first = compress(dependencies);
  const std::string second = compress(parts.findings);
  std::string entry;
  append_number(identity, entry);
  append_number(first.size(), entry);
  entry += first;
  entry += second;
  OutputFile file(path_of(name));
  file.write(kMagic);
  const std::uint64_t checksum = XXH3_64bits(entry.data(), entry.size());
  file.write(std::as_bytes(std::span(&checksum, 1)));
  file.write(entry);
  file.commit();
  return {digest.value(), times.value(), second};
}

}  // namespace optrace

#include "target/build/prebuilt.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <xxhash.h>
#include <zstd.h>

#include "platform/error.h"
#include "platform/files/installation.h"
#include "platform/files/whole_file.h"
#include "platform/text/json_reader.h"
#include "target/build/cached_folder.h"

namespace optrace {
namespace {

constexpr const char* kDescription = "prebuilt.json";
// A zstd frame: for each library `FOLDER/NAME SIZE`, a line feed, and its bytes.
constexpr const char* kPack = "libraries.zst";
constexpr std::size_t kMaxUnpacked = std::size_t{256} << 20;

std::optional<Prebuilt> read_prebuilt(const std::filesystem::path& folder) {
  const auto text = read_file(folder / kDescription);
  if (!text) return std::nullopt;
  try {
    const nlohmann::json json = read_json_or_throw(*text);
    Prebuilt prebuilt{.folder = folder};
    json.at("source_key").get_to(prebuilt.source_key);
    json.at("libraries").get_to(prebuilt.libraries);
    json.at("libraries_hash").get_to(prebuilt.libraries_hash);
    for (const auto& header : json.at("headers"))
      prebuilt.headers.emplace_back(header.get<std::string>());
    json.at("headers_hash").get_to(prebuilt.headers_hash);
    json.at("imports").get_to(prebuilt.imports);
    json.at("cuda").get_to(prebuilt.cuda);
    json.at("functions").get_to(prebuilt.functions);
    return prebuilt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

/// Writes a file of an installation.
void write_for_all(const std::filesystem::path& path, std::string_view content) {
  using std::filesystem::perms;
  write_file(path, content);
  std::filesystem::permissions(path, perms::group_read | perms::others_read,
                               std::filesystem::perm_options::add);
}

std::string name_in_pack(const Prebuilt& prebuilt, const std::string& library) {
  return (prebuilt.folder.filename() / library).string();
}

std::string compressed(const std::string& bytes) {
  std::string result(ZSTD_compressBound(bytes.size()), '\0');
  const std::size_t size =
      ZSTD_compress(result.data(), result.size(), bytes.data(), bytes.size(), ZSTD_maxCLevel());
  result.resize(ZSTD_isError(size) != 0 ? 0 : size);
  return result;
}

/// Returns the bytes of a zstd frame; empty if it is damaged or too large.
std::string decompressed(const std::string& bytes) {
  const unsigned long long size = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
  if (size > kMaxUnpacked) return {};  // This includes the numbers for errors.
  std::string result(size, '\0');
  if (ZSTD_decompress(result.data(), result.size(), bytes.data(), bytes.size()) != size) return {};
  return result;
}

/// Returns the libraries of a pack by their names there.
std::map<std::string, std::string> read_pack(const std::filesystem::path& path) {
  std::map<std::string, std::string> files;
  const std::string bytes = decompressed(read_file(path).value_or(""));
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    const std::size_t blank = std::min(line.rfind(' '), line.size());
    std::size_t size = 0;
    std::from_chars(line.data() + std::min(blank + 1, line.size()), line.data() + line.size(),
                    size);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    files.emplace(line.substr(0, blank), rest.substr(0, size));
    rest.remove_prefix(std::min(size, rest.size()));
  }
  return files;
}

/// Returns the paths of the libraries if they are in `folder` and are undamaged; else nothing.
std::vector<std::filesystem::path> undamaged(const Prebuilt& prebuilt,
                                             const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::string bytes;
  for (const std::string& library : prebuilt.libraries) {
    paths.push_back(folder / library);
    const auto content = read_file(paths.back());
    if (!content) return {};
    bytes += *content;
  }
  if (hash_of(bytes) != prebuilt.libraries_hash) return {};
  return paths;
}

void unpack(const Prebuilt& prebuilt, const std::filesystem::path& folder) {
  const auto files = read_pack(prebuilt.folder.parent_path() / kPack);
  for (const std::string& library : prebuilt.libraries)
    if (const auto file = files.find(name_in_pack(prebuilt, library)); file != files.end())
      write_file(folder / library, file->second);
}

/// Unpacks the libraries into a folder of the cache, which is complete or missing at any time.
/// Returns their paths; nothing if the cache can't be written to.
std::vector<std::filesystem::path> unpack_into_cache(const Prebuilt& prebuilt,
                                                     const std::filesystem::path& cache) {
  const auto folder = cache / prebuilt.libraries_hash;
  try {
    NewFolder unpacked(cache);
    unpack(prebuilt, unpacked.path());
    unpacked.replace(folder);
  } catch (const Error&) {
    return {};
  }
  return undamaged(prebuilt, folder);
}

}  // namespace

std::string hash_of(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::filesystem::path prebuilt_folder(std::string_view kind) {
  return library_folder() / "prebuilt" / kind;
}

std::vector<Prebuilt> prebuilt_libraries(const std::filesystem::path& folder) {
  std::vector<Prebuilt> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (auto prebuilt = read_prebuilt(entry.path())) found.push_back(std::move(*prebuilt));
  std::ranges::sort(found, {}, &Prebuilt::folder);
  return found;
}

void store_prebuilt(Prebuilt& prebuilt, const std::vector<std::filesystem::path>& libraries) {
  std::filesystem::create_directories(prebuilt.folder);
  std::string bytes;
  prebuilt.libraries.clear();
  for (const auto& library : libraries) {
    const std::string content = read_file(library).value_or("");
    prebuilt.libraries.push_back(library.filename());
    write_for_all(prebuilt.folder / library.filename(), content);
    bytes += content;
  }
  prebuilt.libraries_hash = hash_of(bytes);
  nlohmann::json headers = nlohmann::json::array();
  for (const auto& header : prebuilt.headers) headers.push_back(header.string());
  const nlohmann::json json{{"source_key", prebuilt.source_key},
                            {"libraries", prebuilt.libraries},
                            {"libraries_hash", prebuilt.libraries_hash},
                            {"headers", std::move(headers)},
                            {"headers_hash", prebuilt.headers_hash},
                            {"imports", prebuilt.imports},
                            {"cuda", prebuilt.cuda},
                            {"functions", prebuilt.functions}};
  write_for_all(prebuilt.folder / kDescription, json.dump(1) + "\n");
}

void pack_prebuilt(const std::filesystem::path& folder) {
  std::string bytes;
  std::vector<std::filesystem::path> packed;
  for (const Prebuilt& prebuilt : prebuilt_libraries(folder)) {
    for (const std::string& library : prebuilt.libraries) {
      packed.push_back(prebuilt.folder / library);
      const std::string content = read_file(packed.back()).value_or("");
      bytes += fmt::format("{} {}\n", name_in_pack(prebuilt, library), content.size());
      bytes += content;
    }
  }
  write_for_all(folder / kPack, compressed(bytes));
  for (const auto& library : packed) std::filesystem::remove(library);
}

PrebuiltFiles files_of(const Prebuilt& prebuilt, const std::filesystem::path& cache) {
  if (auto here = undamaged(prebuilt, prebuilt.folder); !here.empty()) return {std::move(here)};
  if (!cache.empty()) {
    auto kept = undamaged(prebuilt, cache / prebuilt.libraries_hash);
    if (kept.empty()) kept = unpack_into_cache(prebuilt, cache);
    if (!kept.empty()) return {std::move(kept)};
  }
  const auto folder = std::make_shared<const PrivateFolder>();
  unpack(prebuilt, folder->path());
  return {undamaged(prebuilt, folder->path()), folder};
}

const std::string& HeaderHashes::of(const std::filesystem::path& header) {
  const auto [known, fresh] = known_.try_emplace(header);
  if (fresh)
    if (const auto text = read_file(include_ / header)) known->second = hash_of(*text);
  return known->second;
}

std::string HeaderHashes::of(const std::vector<std::filesystem::path>& headers) {
  std::string sum;
  for (const auto& header : headers) {
    const std::string& hash = of(header);
    if (hash.empty()) return {};
    sum += fmt::format("{} {}\n", hash, header.string());
  }
  return hash_of(sum);
}

}  // namespace optrace

#include "tracer/runtime_build/prebuilt.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <xxhash.h>

#include "platform/installation.h"
#include "platform/json_reader.h"
#include "platform/whole_file.h"

namespace optrace {
namespace {

constexpr const char* kDescription = "prebuilt.json";

std::string hash_of(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::optional<Prebuilt> read_prebuilt(const std::filesystem::path& folder) {
  const auto text = read_file(folder / kDescription);
  if (!text) return std::nullopt;
  try {
    const nlohmann::json json = read_json_or_throw(*text);
    Prebuilt prebuilt{.folder = folder};
    json.at("source_key").get_to(prebuilt.source_key);
    json.at("libraries").get_to(prebuilt.libraries);
    for (const auto& header : json.at("headers"))
      prebuilt.headers.emplace_back(header.get<std::string>());
    json.at("headers_hash").get_to(prebuilt.headers_hash);
    return prebuilt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

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

void describe_prebuilt(const Prebuilt& prebuilt) {
  nlohmann::json headers = nlohmann::json::array();
  for (const auto& header : prebuilt.headers) headers.push_back(header.string());
  const nlohmann::json json{{"source_key", prebuilt.source_key},
                            {"libraries", prebuilt.libraries},
                            {"headers", std::move(headers)},
                            {"headers_hash", prebuilt.headers_hash}};
  write_file(prebuilt.folder / kDescription, json.dump(1) + "\n");
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

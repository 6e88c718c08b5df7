#include "src/cache/cache_output.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include "platform/files/private_folder.h"
#include "platform/text/json_writer.h"
#include "platform/text/printable_text.h"
#include "present/readable_numbers.h"

namespace optrace {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kFolderColumns = 18;
constexpr std::size_t kSizeColumns = 10;

/// Returns when an entry changed last, in UTC: 2026-01-31T12:00:00Z.
std::string time_text(std::chrono::system_clock::time_point time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::floor<std::chrono::seconds>(time)));
}

template <typename Part>
std::uint64_t sum(const std::vector<Part>& parts, std::uint64_t (*bytes)(const Part&)) {
  std::uint64_t all = 0;
  for (const Part& part : parts) all += bytes(part);
  return all;
}

std::uint64_t freed(const CleanedPart& part) {
  return part.bytes;
}

Json document() {
  return {{"schema", "optrace.cache/1"}, {"folder", cache_folder().string()}};
}

Json json_of(const CachePart& part) {
  Json object = {{"folder", part.folder},
                 {"contents", part.contents},
                 {"bytes", bytes_of(part)},
                 {"foreign", part.foreign},
                 {"entries", Json::array()}};
  for (const CacheEntry& entry : part.entries)
    object["entries"].push_back(
        {{"name", entry.name}, {"bytes", entry.bytes}, {"changed", time_text(entry.changed)}});
  return object;
}

Json json_of(const CleanedPart& part) {
  Json object = {{"folder", part.folder},
                 {"removed", part.removed},
                 {"freed_bytes", part.bytes},
                 {"kept", Json::array()}};
  for (const KeptEntry& entry : part.kept)
    object["kept"].push_back({{"path", entry.path.string()}, {"reason", entry.reason}});
  return object;
}

template <typename Part>
Json json_of(const std::vector<Part>& parts) {
  Json list = Json::array();
  for (const Part& part : parts) list.push_back(json_of(part));
  return list;
}

std::string count_of(const CachePart& part) {
  return part.entries.size() == 1 ? "1 entry" : readable_count(part.entries.size()) + " entries";
}

}  // namespace

std::string to_text(const std::vector<CachePart>& parts, const TerminalStyle& style) {
  std::string text;
  for (const CachePart& part : parts) {
    if (!part.entries.empty()) {
      text += fmt::format("{}{}{}, {}\n", style.paint(padded(part.folder, kFolderColumns), kBold),
                          padded(readable_size(bytes_of(part)), kSizeColumns), part.contents,
                          count_of(part));
    }
    if (part.foreign > 0) {
      text += fmt::format("{}{}not optrace's, or a link; `optrace cache clean` leaves it alone\n",
                          padded(part.folder, kFolderColumns),
                          padded(std::to_string(part.foreign), kSizeColumns));
    }
  }
  if (text.empty()) text = "Nothing is cached.\n";
  const std::string folder = printable(cache_folder().string());
  return text + fmt::format("{} in {}\n", readable_size(sum(parts, bytes_of)),
                            folder.empty() ? "no folder" : folder);
}

std::string to_json(const std::vector<CachePart>& parts) {
  Json object = document();
  object["bytes"] = sum(parts, bytes_of);
  object["parts"] = json_of(parts);
  return write_json(object, 1) + '\n';
}

std::string to_text(const std::vector<CleanedPart>& parts) {
  std::string text;
  for (const CleanedPart& part : parts) {
    if (part.removed > 0) {
      text += fmt::format("{}{}freed\n", padded(part.folder, kFolderColumns),
                          padded(readable_size(part.bytes), kSizeColumns));
    }
    for (const KeptEntry& entry : part.kept)
      text += fmt::format("not removed: {} ({})\n", printable(entry.path.string()),
                          printable(entry.reason));
  }
  return text + fmt::format("freed {}\n", readable_size(sum(parts, freed)));
}

std::string to_json(const std::vector<CleanedPart>& parts) {
  Json object = document();
  object["freed_bytes"] = sum(parts, freed);
  object["cleaned"] = json_of(parts);
  return write_json(object, 1) + '\n';
}

}  // namespace optrace

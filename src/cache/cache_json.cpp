#include <fmt/chrono.h>
#include <fmt/core.h>

#include "platform/files/private_folder.h"
#include "platform/text/json_writer.h"
#include "src/cache/cache_output.h"

namespace optrace {
namespace {

using Json = nlohmann::ordered_json;

/// Returns when an entry changed last, in UTC: 2026-01-31T12:00:00Z.
std::string time_text(std::chrono::system_clock::time_point time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::floor<std::chrono::seconds>(time)));
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

}  // namespace

std::string to_json(const std::vector<CachePart>& parts) {
  Json object = document();
  object["bytes"] = bytes_of(parts);
  object["parts"] = json_of(parts);
  return write_json(object, 1) + '\n';
}

std::string to_json(const std::vector<CleanedPart>& parts) {
  Json object = document();
  object["freed_bytes"] = bytes_of(parts);
  object["cleaned"] = json_of(parts);
  return write_json(object, 1) + '\n';
}

}  // namespace optrace

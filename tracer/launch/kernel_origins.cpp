#include "tracer/launch/kernel_origins.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "platform/private_folder.h"
#include "platform/whole_file.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kKeptFiles = 2000;
constexpr const char* kFile = "file";
constexpr const char* kKernels = "kernels";
constexpr const char* kCalls = "calls";
constexpr const char* kName = "name";
constexpr const char* kOrigins = "origins";

const Json& list_in(const Json& object, const char* key) {
  static const Json kNone = Json::array();
  if (!object.is_object()) return kNone;
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : kNone;
}

// Returns the name of the file that keeps the origins; empty if the generated file's name is not
// one that Inductor makes from a hash of its content.
std::string kept_name(const Json& generated) {
  const auto found = generated.find(kFile);
  if (found == generated.end() || !found->is_string()) return {};
  const std::string name = std::filesystem::path(found->get<std::string>()).filename().string();
  constexpr std::size_t kLongest = 100;
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  const std::size_t end = name.find_first_not_of(kLetters);
  if (end == 0 || end > kLongest || end == std::string::npos || name.substr(end) != ".py")
    return {};
  return name.substr(0, end) + ".json";
}

// Returns the origins of kernels by name, of those that have some.
Json origins_of(const Json& generated) {
  Json origins = Json::object();
  for (const Json& kernel : list_in(generated, kKernels)) {
    if (!kernel.is_object() || !kernel.contains(kName) || !kernel[kName].is_string()) continue;
    const Json& known = list_in(kernel, kOrigins);
    if (!known.empty()) origins[kernel[kName].get<std::string>()] = known;
  }
  return origins;
}

// Programs with the same graph at other lines have the same generated file. Its calls tell them
// apart.
Json read_kept(const std::filesystem::path& file, const Json& calls) {
  const Json kept = Json::parse(read_file(file).value_or(""), nullptr, /*allow_exceptions=*/false);
  if (!kept.is_object() || list_in(kept, kCalls) != calls || !kept.contains(kOrigins)) return {};
  return kept[kOrigins];
}

void remove_oldest(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::vector<std::pair<std::filesystem::file_time_type, std::filesystem::path>> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
    files.emplace_back(entry.last_write_time(ignored), entry.path());
  if (files.size() <= kKeptFiles) return;
  std::ranges::sort(files);
  files.resize(files.size() - kKeptFiles);
  for (const auto& [time, file] : files) std::filesystem::remove(file, ignored);
}

}  // namespace

void complete_kernel_origins(Json& generated_code, const std::filesystem::path& folder) {
  if (!generated_code.is_array() || folder.empty()) return;
  bool wrote = false;
  for (Json& generated : generated_code) {
    if (!generated.is_object()) continue;
    const std::string name = kept_name(generated);
    if (name.empty()) continue;
    const Json& calls = list_in(generated, kCalls);
    if (const Json origins = origins_of(generated); !origins.empty()) {
      wrote = try_write_file(folder / name, Json{{kCalls, calls}, {kOrigins, origins}}.dump(
                                                -1, ' ', false, Json::error_handler_t::replace)) ||
              wrote;
      continue;
    }
    const Json kept = read_kept(folder / name, calls);
    if (!kept.is_object() || list_in(generated, kKernels).empty()) continue;
    for (Json& kernel : generated[kKernels]) {
      if (!kernel.is_object() || !kernel.contains(kName) || !kernel[kName].is_string()) continue;
      const auto found = kept.find(kernel[kName].get<std::string>());
      if (found != kept.end()) kernel[kOrigins] = *found;
    }
  }
  if (wrote) remove_oldest(folder);
}

void complete_kernel_origins(Json& meta) {
  const auto generated = meta.find("generated_code");
  if (generated != meta.end() && !generated->empty())
    complete_kernel_origins(*generated, cache_subfolder("kernel-origins"));
}

}  // namespace optrace

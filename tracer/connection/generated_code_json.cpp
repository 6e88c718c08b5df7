#include "tracer/connection/generated_code_json.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "platform/files/cache_folders.h"
#include "platform/files/private_folder.h"
#include "platform/files/whole_file.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kKeptFiles = 2000;        // In each folder.
constexpr std::uintmax_t kMaxCopy = 4U << 20U;  // In bytes, of one file.
constexpr const char* kFile = "file";
constexpr const char* kKernels = "kernels";
constexpr const char* kCalls = "calls";
constexpr const char* kName = "name";
constexpr const char* kOrigins = "origins";
constexpr const char* kSource = "source";
constexpr const char* kSources = "sources";
constexpr const char* kNotFused = "not_fused";
constexpr const char* kNodes = "nodes";
constexpr const char* kNode = "node";
constexpr const char* kLine = "line";
constexpr const char* kModule = "module";
constexpr const char* kOrigin = "origin";

const Json& list_in(const Json& object, const char* key) {
  static const Json kNone = Json::array();
  if (!object.is_object()) return kNone;
  const auto found = object.find(key);
  return found != object.end() && found->is_array() ? *found : kNone;
}

// Returns the path at `file` of an object; empty if the file's name is not one that Inductor makes
// from a hash of its content.
std::filesystem::path generated_file(const Json& object) {
  if (!object.is_object() || !object.contains(kFile) || !object[kFile].is_string()) return {};
  const std::filesystem::path file = object[kFile].get<std::string>();
  const std::string stem = file.stem().string();
  constexpr std::size_t kLongest = 100;
  // AOTInductor's files also have a kind: `cv72….wrapper.cpp`.
  constexpr std::string_view kLetters = ".abcdefghijklmnopqrstuvwxyz0123456789";
  const bool named = !stem.empty() && stem.front() != '.' && stem.size() <= kLongest &&
                     stem.find_first_not_of(kLetters) == std::string::npos &&
                     (file.extension() == ".py" || file.extension() == ".cpp");
  return named ? file : std::filesystem::path();
}

bool has_name(const Json& kernel) {
  return kernel.is_object() && kernel.contains(kName) && kernel[kName].is_string();
}

// Returns the origins of kernels by name, of those that have some.
Json origins_of(const Json& generated) {
  Json origins = Json::object();
  for (const Json& kernel : list_in(generated, kKernels)) {
    const Json& known = list_in(kernel, kOrigins);
    if (has_name(kernel) && !known.empty()) origins[kernel[kName].get<std::string>()] = known;
  }
  return origins;
}

// Returns where kernels are defined, by name, of those of which that is known.
Json sources_of(const Json& generated) {
  Json sources = Json::object();
  for (const Json& kernel : list_in(generated, kKernels))
    if (has_name(kernel) && kernel.contains(kSource))
      sources[kernel[kName].get<std::string>()] = kernel[kSource];
  return sources;
}

// Programs with the same graph at other lines have the same generated file. Its calls tell them
// apart.
Json read_kept(const std::filesystem::path& file, const Json& calls) {
  const Json kept = Json::parse(read_file(file).value_or(""), nullptr, /*allow_exceptions=*/false);
  return kept.is_object() && list_in(kept, kCalls) == calls ? kept : Json();
}

// A model of AOTInductor has no kernels yet if its package was removed before the trace ended.
void add_kept(Json& generated, const Json& kept) {
  if (const Json& pairs = list_in(kept, kNotFused); !pairs.empty()) generated[kNotFused] = pairs;
  const auto origins = kept.find(kOrigins);
  if (origins == kept.end() || !origins->is_object()) return;
  Json& kernels = generated[kKernels];
  if (kernels.empty()) {
    const Json sources = kept.value(kSources, Json::object());
    for (const auto& [name, known] : origins->items()) {
      kernels.push_back({{kName, name}, {kOrigins, known}});
      if (sources.contains(name)) kernels.back()[kSource] = sources[name];
    }
    return;
  }
  for (Json& kernel : kernels) {
    if (!has_name(kernel)) continue;
    const auto found = origins->find(kernel[kName].get<std::string>());
    if (found != origins->end()) kernel[kOrigins] = *found;
  }
}

// Inductor's cache has the lines of the program that filled it, in which the nodes of an equal
// graph have the same names. Replaces these lines by those of the traced program, or removes them.
class Relocation {
 public:
  explicit Relocation(const Json& nodes) {
    for (const Json& node : nodes) {
      if (!node.is_object()) continue;
      nodes_[node.value(kNode, Json())] = node;
      own_.insert(place_of(node));
    }
  }

  void relocate(Json& generated) {
    for (Json& kernel : elements(generated, kKernels))
      for (Json& origin : elements(kernel, kOrigins)) relocate_origin(origin);
    for (Json& call : elements(generated, kCalls)) {
      if (!call.is_object() || !call.contains(kOrigin)) continue;
      const auto moved = moved_.find(place_of(call[kOrigin]));
      if (moved != moved_.end())
        call[kOrigin] = moved->second;
      else if (!own_.contains(place_of(call[kOrigin])))
        call[kOrigin] = Json::object();
    }
  }

 private:
  static Json& elements(Json& object, const char* key) {
    static Json none = Json::array();
    return list_in(object, key).empty() ? none : object[key];
  }

  static Json place_of(const Json& origin) {
    Json place = Json::object();
    for (const char* const key : {kFile, kLine})
      if (origin.is_object() && origin.contains(key)) place[key] = origin[key];
    return place;
  }

  static void set_place(Json& origin, const Json& node) {
    for (const char* const key : {kFile, kLine, kModule}) {
      origin.erase(key);
      if (node.contains(key)) origin[key] = node[key];
    }
  }

  void relocate_origin(Json& origin) {
    if (!origin.is_object()) return;
    const Json before = place_of(origin);
    if (const auto node = nodes_.find(origin.value(kNode, Json())); node != nodes_.end()) {
      moved_.emplace(before, place_of(node->second));
      set_place(origin, node->second);
    } else if (!own_.contains(before)) {
      set_place(origin, Json::object());
    }
  }

  std::map<Json, Json> nodes_;  // By name.
  std::set<Json> own_;          // Their places.
  std::map<Json, Json> moved_;  // Places, by those in the program that filled the cache.
};

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
    const std::filesystem::path file = generated_file(generated);
    if (file.empty()) continue;
    const std::filesystem::path name = file.stem().string() + ".json";
    const Json& calls = list_in(generated, kCalls);
    if (const Json origins = origins_of(generated); !origins.empty()) {
      const Json kept = {{kCalls, calls},
                         {kOrigins, origins},
                         {kSources, sources_of(generated)},
                         {kNotFused, list_in(generated, kNotFused)}};
      wrote = try_write_file(folder / name,
                             kept.dump(-1, ' ', false, Json::error_handler_t::replace)) ||
              wrote;
    } else if (const Json kept = read_kept(folder / name, calls);
               kept.is_object() && generated.contains(kKernels) && generated[kKernels].is_array()) {
      add_kept(generated, kept);
    }
    if (generated.contains(kNodes)) {
      Relocation(list_in(generated, kNodes)).relocate(generated);
      generated.erase(kNodes);
    }
  }
  if (wrote) remove_oldest(folder);
}

void copy_generated_files(const Json& generated_code, const std::filesystem::path& folder) {
  if (!generated_code.is_array() || folder.empty()) return;
  bool wrote = false;
  const auto copy = [&](const Json& object) {
    const std::filesystem::path file = generated_file(object);
    std::error_code error;
    if (file.empty() || !file.is_absolute() ||
        std::filesystem::exists(folder / file.filename(), error) ||
        !std::filesystem::is_regular_file(file, error) ||
        std::filesystem::file_size(file, error) > kMaxCopy || error)
      return;
    const std::optional<std::string> content = read_file(file);
    wrote = (content && try_write_file(folder / file.filename(), *content)) || wrote;
  };
  for (const Json& generated : generated_code) {
    copy(generated);
    for (const Json& kernel : list_in(generated, kKernels))
      if (kernel.is_object() && kernel.contains(kSource)) copy(kernel[kSource]);
  }
  if (wrote) remove_oldest(folder);
}

void cache_generated_code(Json& described) {
  const auto generated = described.find("generated_code");
  if (generated == described.end() || generated->empty()) return;
  complete_kernel_origins(*generated, cache_subfolder(cache_folders::kKernelOrigins));
  copy_generated_files(*generated, cache_subfolder(cache_folders::kGeneratedCode));
}

}  // namespace optrace

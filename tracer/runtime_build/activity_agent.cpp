#include "tracer/runtime_build/activity_agent.h"

#include <array>
#include <cstdlib>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "platform/installation.h"
#include "platform/json_reader.h"
#include "platform/whole_file.h"
#include "tracer/device_generator/device_families.h"
#include "tracer/runtime_build/built_for_torch.h"
#include "tracer/runtime_build/cuda_headers.h"
#include "tracer/runtime_build/dry_run.h"

namespace optrace {
namespace {

constexpr std::string_view kLacks =
    "Device activity (kernels, their times) is missing from the trace.";

// All arguments but the paths of headers, sources and the result. No -march, because machines of
// different kinds may share a cache.
constexpr std::array kCompileArguments = {"-O2", "-fPIC", "-fvisibility=hidden", "-DNDEBUG",
                                          "-pthread"};
constexpr std::array kLinkArguments = {"-shared", "-Wl,-z,nodelete", "-Wl,-z,now", "-pthread",
                                       "-ldl"};

class Builder {
 public:
  explicit Builder(const std::filesystem::path& torch_folder)
      : torch_(torch_folder), sources_(data_folder() / "device_activity"), headers_(torch_folder) {}

  ActivityAgent find_or_build(const std::function<void(std::string_view)>& progress) {
    const auto version = read_file(torch_ / "version.py");
    const auto cuda = version ? value_in(*version, "cuda") : std::nullopt;
    // Tracing CUDA on a torch without it is reported elsewhere.
    if (!cuda) return {};
    const auto compiler = find_compiler();
    if (!compiler) return without(std::string(kNoCompiler));
    compiler_ = *compiler;
    if (const std::string lacking = missing_headers(*cuda); !lacking.empty())
      return without(lacking);
    const std::string name = fmt::format("liboptrace_activity-{}.so", key(*version));
    const BuildPlace place{build_cache("activity-agents"), name, torch_.parent_path(), compiler_};
    if (auto kept = kept_library(place))
      return {.library = std::move(*kept), .missing = {}, .folder = {}};
    progress("compiling the recorder of device activity for this torch, once");
    BuiltLibrary built = build_library(place, library_build());
    if (built.path.empty()) {
      return without(
          fmt::format("Compiling its recorder with {} failed ({}). $CXX selects another compiler.",
                      compiler_.string(), built.failure));
    }
    return {.library = std::move(built.path), .missing = {}, .folder = std::move(built.folder)};
  }

 private:
  static ActivityAgent without(const std::string& why) {
    return {.library = {}, .missing = fmt::format("{} {}", kLacks, why), .folder = {}};
  }

  /// Returns a message if headers are missing, else an empty string. Adds the other headers'
  /// folders to used_.
  std::string missing_headers(const std::string& cuda) {
    std::vector<const DeviceFamily*> missing;
    for (const std::string_view name : {"cupti", "cudart"}) {
      const DeviceFamily& family = *device_family(name);
      if (const auto folder = headers_.folder_of(family.headers.front())) {
        used_.insert(*folder);
      } else {
        missing.push_back(&family);
      }
    }
    if (missing.empty()) return {};
    return fmt::format("Recording it needs the headers of CUPTI, and {}",
                       lacking_headers(missing, torch_, cuda));
  }

  std::string key(const std::string& torch_version) const {
    BuildKey key;
    key.add(torch_version);
    key.add(identity_of(compiler_));
    for (const char* const argument : kCompileArguments) key.add(argument);
    for (const char* const argument : kLinkArguments) key.add(argument);
    for (const auto& folder : used_)
      for (const char* const header : {"cupti_version.h", "cuda.h"})
        key.add(identity_of(folder / header));
    key.add_files_below(sources_);
    return key.hex();
  }

  LibraryBuild library_build() const {
    LibraryBuild build{{sources_ / "tracer/in_process/device_activity/device_activity.cpp"},
                       {kCompileArguments.begin(), kCompileArguments.end()},
                       {kLinkArguments.begin(), kLinkArguments.end()}};
    build.compile.insert(build.compile.end(), {"-I", sources_.string()});
    const auto headers = headers_.arguments(used_);
    build.compile.insert(build.compile.end(), headers.begin(), headers.end());
    const auto stand_ins =
        data_folder() / "emulated_device" / "tracer" / "emulated_device" / "stand_ins";
    build.compile.insert(build.compile.end(), {"-idirafter", stand_ins.string()});
    return build;
  }

  std::filesystem::path torch_;
  std::filesystem::path sources_;
  HeaderFolders headers_;
  std::filesystem::path compiler_;
  std::set<std::filesystem::path> used_;  ///< Folders that contain the headers.
};

}  // namespace

bool records_device_activity(bool dry_run) {
  if (const char* const wish = std::getenv("OPTRACE_DEVICE_ACTIVITY");
      wish != nullptr && *wish != '\0')
    return std::string_view(wish) != "0";
  return !dry_run && has_gpu();
}

ActivityAgent find_or_build_activity_agent(const std::filesystem::path& torch_folder,
                                           const std::function<void(std::string_view)>& progress) {
  return Builder(torch_folder).find_or_build(progress);
}

void add_activity_warnings(Trace& trace) {
  std::set<std::string> reasons;
  for (const std::string& record : trace.op_records) {
    const auto json = read_json(record);
    if (!json.is_object() || json.value("kind", nlohmann::json()) != "activity_missing") continue;
    const auto why = json.find("why");
    if (why != json.end() && why->is_string()) reasons.insert(why->get<std::string>());
  }
  for (const std::string& reason : reasons) trace.meta["warnings"].push_back(reason);
  if (!reasons.empty()) note_shortfall(trace.meta, "device_work_missing");
}

}  // namespace optrace

#include "tracer/connection/target_description.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>

#include <fmt/core.h>

#include "platform/error.h"
#include "platform/text/json_fields.h"
#include "platform/text/printable_text.h"
#include "pytorch/functions/generated_names.h"
#include "pytorch/installed/wheel_libraries.h"
#include "tracer/connection/device_facts.h"
#include "tracer/connection/target_messages.h"
#include "tracer/trace/trace_meta_json.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

/// Adds the identifiers in a mangled name, in which each is preceded by its length.
void add_identifiers(std::string_view symbol, std::unordered_set<std::string_view>& identifiers) {
  for (std::size_t at = 0; at < symbol.size();) {
    std::size_t length = 0;
    while (at < symbol.size() && std::isdigit(static_cast<unsigned char>(symbol[at])) != 0 &&
           length < symbol.size()) {
      length = length * 10 + static_cast<std::size_t>(symbol[at++] - '0');
    }
    if (length == 0 || length > symbol.size() - at) {
      at += length == 0 ? 1 : 0;
      continue;
    }
    std::string_view identifier = symbol.substr(at, length);
    identifiers.insert(identifier);
    // `wrapper_CPU_add_Tensor`, `wrapper_CompositeExplicitAutograd__empty_like`.
    if (identifier.starts_with(kWrapperStart)) {
      identifier.remove_prefix(kWrapperStart.size());
      const std::size_t end = identifier.find('_');
      if (end != std::string_view::npos) identifiers.insert(identifier.substr(end + 1));
    }
    at += length;
  }
}

/// A library that only the builds of torch for another platform have.
struct ForeignBuild {
  const char* library;
  const char* platform;
};
constexpr auto kForeignBuilds = std::to_array<ForeignBuild>({
    {"libtorch_hip.so", "AMD GPUs (ROCm)"},
    {"torch_cpu.dll", "Windows"},
    {"libtorch_cpu.dylib", "macOS"},
});

/// Throws Error(usage) for a torch that optrace does not support. (A library for another processor
/// is refused when it is read.)
void refuse_foreign_build(const std::filesystem::path& folder, const ModuleStore& store) {
  for (const ForeignBuild& build : kForeignBuilds) {
    const std::filesystem::path library = folder / build.library;
    if (!store.has(library)) continue;
    throw Error(ExitStatus::usage,
                fmt::format("this torch is built for {}: there is {}", build.platform,
                            printable(library.string())),
                "optrace traces torch for x86-64 Linux, on CPUs and on NVIDIA GPUs (CUDA). Install "
                "such a wheel into another environment, and choose its Python with --python.");
  }
}

using Member = std::pair<const char*, Json::value_t>;
constexpr Member kOfTorch[] = {{"torch", Json::value_t::object},
                               {"op_names", Json::value_t::object},
                               {"python", Json::value_t::string},
                               {"torch_folder", Json::value_t::string}};
constexpr Member kOfCall[] = {
    {"inputs", Json::value_t::array},     {"warnings", Json::value_t::array},
    {"backward", Json::value_t::boolean}, {"device", Json::value_t::string},
    {"op", Json::value_t::string},        {"call", Json::value_t::string}};

void require_members(const Json& described, std::span<const Member> members) {
  if (std::ranges::all_of(members, [&](const Member& member) {
        return value_at(described, member.first).type() == member.second;
      }))
    return;
  throw Error(ExitStatus::failed, "the traced Python sent an unexpected description of itself",
              kReport);
}

}  // namespace

std::vector<std::filesystem::path> torch_libraries(const std::filesystem::path& torch_folder,
                                                   bool cuda, const ModuleStore& store) {
  const std::filesystem::path folder = torch_folder / "lib";
  refuse_foreign_build(folder, store);
  std::vector<std::filesystem::path> libraries;
  for (const std::string_view name : {kTorchCpu, kTorchPython, kC10}) {
    libraries.push_back(folder / name);
    if (!store.has(libraries.back())) {
      throw Error(ExitStatus::usage,
                  fmt::format("this torch is not a release wheel: there is no {}",
                              printable(libraries.back().string())),
                  "Install a release wheel (pip install torch), or choose another Python with "
                  "--python.");
    }
  }
  if (!cuda) return libraries;
  for (const std::string_view name : {kTorchCuda, kC10Cuda})
    if (store.has(folder / name)) libraries.push_back(folder / name);
  return libraries;
}

void complete_trace(Trace& trace, const DryRun* dry_run) {
  keep_names_that_occur(trace);
  if (dry_run != nullptr) describe_dry_run(*dry_run, trace);
  add_activity_warnings(trace);
}

void keep_names_that_occur(Trace& trace) {
  std::unordered_set<std::string_view> identifiers;
  for (const TraceFunction& function : trace.functions)
    add_identifiers(function.symbol, identifiers);
  std::erase_if(trace.meta.op_names,
                [&](const auto& name) { return !identifiers.contains(name.first); });
}

TraceMeta checked_torch(const Json& described) {
  require_members(described, kOfTorch);
  TraceMeta all = trace_meta_of(described);
  TraceMeta meta;
  meta.torch = std::move(all.torch);
  meta.op_names = std::move(all.op_names);
  meta.python = std::move(all.python);
  meta.torch_folder = std::move(all.torch_folder);
  return meta;
}

TraceMeta checked_call(const Json& described) {
  require_members(described, kOfTorch);
  require_members(described, kOfCall);
  return trace_meta_of(described);
}

}  // namespace optrace

#include "tracer/connection/target_description.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_set>

#include <fmt/core.h>

#include "platform/error.h"
#include "platform/text/printable_text.h"
#include "pytorch/functions/generated_names.h"
#include "pytorch/installed/wheel_libraries.h"
#include "tracer/connection/device_facts.h"

namespace optrace {
namespace {

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

}  // namespace optrace

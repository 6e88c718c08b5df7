#include "report/compiled/triton_launches.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/model/walk_frames.h"

namespace optrace {
namespace {

// The functions that launch a kernel to measure its time; they are below the choice of the
// configuration, whatever its result.
constexpr auto kBenchmarks =
    std::to_array<std::string_view>({"torch._inductor.runtime.triton_heuristics.CachingAutotuner.",
                                     "triton.runtime.autotuner.Autotuner."});
constexpr auto kBenchmark = std::to_array<std::string_view>({"bench", "_bench"});

// The innermost call that generated code makes, above a frame's children.
struct GeneratedCall {
  const Frame* generated = nullptr;  // The innermost function of a generated file.
  const Frame* called = nullptr;     // What that one calls.
  bool benchmark = false;
};

std::uint64_t threads_of(const Launch& launch) {
  std::uint64_t product = 1;
  for (const std::uint64_t count : launch.block) product *= count;
  return product;
}

// Returns true if a figure of a configuration may be that of a launch.
bool agrees(const std::optional<std::uint64_t>& figure,
            const std::optional<std::uint64_t>& launched) {
  return !figure || !launched || *launched == *figure;
}

// Returns the configurations that the launched code may have been compiled for. A trace has the
// name of a launched kernel, but not which of several with this name it was.
std::vector<const TritonConfiguration*> launched(const TritonKernel& kernel, const Launch& launch,
                                                 bool benchmark) {
  constexpr std::uint64_t kWarp = 32;
  std::vector<const TritonConfiguration*> found;
  for (const TritonConfiguration& one : kernel.configurations) {
    if (!benchmark && !one.chosen.value_or(true)) continue;
    if (one.num_warps && *one.num_warps * kWarp != threads_of(launch)) continue;
    if (agrees(one.shared_memory, launch.shared_memory) && agrees(one.registers, launch.registers))
      found.push_back(&one);
  }
  return found;
}

// Adds what all of the configurations have in common.
void add_common(const std::vector<const TritonConfiguration*>& configurations, Launch& launch) {
  if (configurations.empty()) return;
  const TritonConfiguration& first = *configurations.front();
  const auto all_have = [&](const auto& is_equal) {
    return std::ranges::all_of(configurations,
                               [&](const TritonConfiguration* one) { return is_equal(*one); });
  };
  if (first.num_warps) launch.num_warps = first.num_warps;
  if (first.num_stages &&
      all_have([&](const TritonConfiguration& one) { return one.num_stages == first.num_stages; }))
    launch.num_stages = first.num_stages;
  std::vector<NamedConstant> common;
  for (const NamedConstant& constant : first.constants)
    if (all_have([&](const TritonConfiguration& one) {
          return std::ranges::find(one.constants, constant) != one.constants.end();
        }))
      common.push_back(constant);
  if (!common.empty()) launch.constants = std::move(common);
}

void add_kernel(Frame& frame, const GeneratedCall& above, const TritonKernel& kernel) {
  if (!kernel.file.empty()) {
    FrameSource source;
    source.file = kernel.file;
    source.line = kernel.line;
    frame.source = std::move(source);
  }
  Detail& detail = frame.detail.edit();
  for (Launch& launch : detail.launches)
    add_common(launched(kernel, launch, above.benchmark), launch);
  if (kernel.is_tuned()) detail.configurations = kernel.configurations;
  // Inductor's generated code has the program's line of each call. A kernel that Inductor generated
  // has the lines of all that was fused into it already.
  if (above.called != nullptr && detail.origins.empty())
    detail.origins = above.called->detail->origins;
}

}  // namespace

bool is_benchmark(const Frame& frame) {
  return frame.layer == Layer::python &&
         std::ranges::any_of(kBenchmarks, [&](std::string_view autotuner) {
           return frame.name.starts_with(autotuner) &&
                  std::ranges::find(kBenchmark,
                                    std::string_view(frame.name).substr(autotuner.size())) !=
                      kBenchmark.end();
         });
}

void add_triton_kernels(Report& report, const TritonKernels& kernels) {
  if (kernels.empty()) return;
  walk_frames(report.roots, GeneratedCall{}, [&](Frame& frame, GeneratedCall above) {
    if (above.generated != nullptr && above.called == nullptr) above.called = &frame;
    if (frame.layer == Layer::device) {
      const std::string file = above.generated != nullptr ? above.generated->source->file : "";
      if (const TritonKernel* const kernel = kernels.find(file, frame.name))
        add_kernel(frame, above, *kernel);
    }
    if (frame.source && frame.detail->generated) {
      above.generated = &frame;
      above.called = nullptr;
    }
    above.benchmark = above.benchmark || is_benchmark(frame);
    return above;
  });
}

}  // namespace optrace

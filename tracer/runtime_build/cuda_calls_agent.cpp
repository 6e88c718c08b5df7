#include "tracer/runtime_build/cuda_calls_agent.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "platform/error.h"
#include "platform/installation.h"
#include "platform/output_file.h"
#include "platform/whole_file.h"
#include "tracer/runtime_build/build_inputs.h"
#include "tracer/runtime_build/built_for_torch.h"
#include "tracer/runtime_build/cuda_headers.h"
#include "tracer/runtime_build/device_libraries.h"

namespace optrace {
namespace {

constexpr std::string_view kLacks =
    "The arguments of calls of CUDA's libraries (sizes, types, engines) are missing from the "
    "trace.";

// The libraries whose calls are recorded. CUPTI reports those of the driver and the runtime.
constexpr std::array kFamilies = {"cublas", "cublaslt", "cudnn",    "cufft",
                                  "curand", "cusolver", "cusparse", "nccl"};

// The sources that are written by hand.
constexpr std::array kSources = {
    "in_process/cuda_calls/cuda_calls.cpp",        "in_process/cuda_calls/cublaslt_calls.cpp",
    "in_process/cuda_calls/cudnn_graph_calls.cpp", "emulated_device/libraries/cublaslt_product.cpp",
    "emulated_device/libraries/cudnn_graph.cpp",   "emulated_device/device/device_records.cpp",
};

constexpr std::size_t kCompilersAtOnce = 4;

/// The emulated device is written in C++17.
const std::vector<std::string>& compile_arguments() {
  static const std::vector<std::string> arguments{
      "-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden", "-Wno-deprecated-declarations"};
  return arguments;
}

// A dry run also has the emulated device, so symbols that both define must bind to this library's
// own.
const std::vector<std::string>& link_arguments() {
  static const std::vector<std::string> arguments{"-shared", "-Wl,-Bsymbolic", "-Wl,-z,nodelete",
                                                  "-Wl,-z,now", "-Wl,--no-undefined"};
  return arguments;
}

class Builder {
 public:
  explicit Builder(const std::filesystem::path& torch_folder)
      : torch_(torch_folder),
        sources_(data_folder() / "emulated_device"),
        generator_(library_folder() / "optrace-device-generator"),
        headers_(torch_folder) {}

  CudaCallsAgent find_or_build(const std::function<void(std::string_view)>& progress) {
    const auto version = read_file(torch_ / "version.py");
    const auto cuda = version ? value_in(*version, "cuda") : std::nullopt;
    // Tracing CUDA on a torch without it is reported elsewhere.
    if (!cuda) return {};
    const auto compiler = find_compiler();
    if (!compiler) return without(std::string(kNoCompiler));
    compiler_ = *compiler;
    try {
      for (DeviceLibrary& library : device_libraries(files_of_torch(torch_)))
        if (std::ranges::count(kFamilies, library.family->name) != 0 && !library.functions.empty())
          libraries_.push_back(std::move(library));
    } catch (const Error& error) {
      return without(fmt::format("{}. {}", error.what(), error.remedy()));
    }
    if (const std::string lacking = missing_headers(*cuda); !lacking.empty())
      return without(lacking);
    const std::string name = fmt::format("liboptrace_cuda_calls-{}.so", key(*version));
    const BuildPlace place{build_cache("cuda-calls"), name, torch_.parent_path(), compiler_};
    if (auto kept = kept_library(place))
      return {.library = std::move(*kept), .missing = {}, .folder = {}};
    progress("compiling the recorder of CUDA library calls for this torch, once");
    return build(place);
  }

 private:
  static CudaCallsAgent without(const std::string& why) {
    return {.library = {}, .missing = fmt::format("{} {}", kLacks, why), .folder = {}};
  }

  /// Returns a message if headers are missing, else an empty string. Adds the other headers'
  /// folders to used_.
  std::string missing_headers(const std::string& cuda) {
    std::vector<const DeviceFamily*> missing;
    std::set<const DeviceFamily*> needed{device_family("cudart"), device_family("cublaslt"),
                                         device_family("cudnn")};
    for (const DeviceLibrary& library : libraries_) needed.insert(library.family);
    for (const DeviceFamily* const family : needed) {
      if (const auto folder = headers_.folder_of(family->headers.front())) {
        used_.insert(*folder);
      } else {
        missing.push_back(family);
      }
    }
    if (missing.empty()) return {};
    return fmt::format("Recording them needs the headers of CUDA's libraries, and {}",
                       lacking_headers(missing, torch_, cuda));
  }

  std::string key(const std::string& torch_version) const {
    BuildKey key;
    key.add(torch_version);
    key.add(identity_of(compiler_));
    key.add(identity_of(generator_));
    for (const auto& arguments : {compile_arguments(), link_arguments()})
      for (const std::string& argument : arguments) key.add(argument);
    for (const DeviceLibrary& library : libraries_) {
      key.add(library.soname);
      for (const auto& [version, functions] : library.functions)
        for (const std::string& function : functions) key.add(function);
    }
    for (const auto& folder : used_) key.add(folder.string());
    key.add_files_below(sources_);
    return key.hex();
  }

  std::vector<std::string> header_arguments() const {
    std::vector<std::string> arguments = headers_.arguments(used_);
    arguments.emplace_back("-idirafter");
    arguments.push_back((sources_ / "tracer" / "emulated_device" / "stand_ins").string());
    return arguments;
  }

  BuildStep compile_step(const std::filesystem::path& source,
                         const std::filesystem::path& object) const {
    BuildStep step{compiler_.string()};
    step.insert(step.end(), compile_arguments().begin(), compile_arguments().end());
    for (const std::string& argument : {std::string("-I"), sources_.string(), std::string("-c"),
                                        source.string(), std::string("-o"), object.string()})
      step.push_back(argument);
    for (const auto& arguments : {dependency_arguments(object), header_arguments()})
      step.insert(step.end(), arguments.begin(), arguments.end());
    return step;
  }

  /// Builds everything in `folder`, and the library as `result`.
  std::optional<BuildFailure> make(const std::filesystem::path& folder,
                                   const std::filesystem::path& result) const {
    std::vector<BuildStep> generate;
    std::vector<std::filesystem::path> sources;
    for (const DeviceLibrary& library : libraries_) {
      const std::string name(library.family->name);
      const auto functions = folder / (name + ".functions");
      OutputFile list(functions);
      for (const auto& [version, names] : library.functions)
        for (const std::string& function : names) list.write(function + "\n");
      list.commit();
      sources.push_back(folder / (name + "-forwarders.cpp"));
      generate.push_back(
          {generator_.string(), "forward", name, functions.string(), sources.back().string()});
      const auto headers = header_arguments();
      generate.back().insert(generate.back().end(), headers.begin(), headers.end());
    }
    if (auto failure = run_build_steps(generate, kCompilersAtOnce, folder)) return failure;
    for (const char* const source : kSources) sources.push_back(sources_ / "tracer" / source);
    std::vector<BuildStep> compile;
    BuildStep link{compiler_.string()};
    link.insert(link.end(), link_arguments().begin(), link_arguments().end());
    for (const auto& source : sources) {
      const auto object = folder / source.filename().replace_extension(".o");
      compile.push_back(compile_step(source, object));
      link.push_back(object.string());
    }
    if (auto failure = run_build_steps(compile, kCompilersAtOnce, folder)) return failure;
    for (const std::string& argument :
         {std::string("-o"), result.string(), std::string("-pthread"), std::string("-ldl")})
      link.push_back(argument);
    return run_build_steps({link}, 1, folder);
  }

  CudaCallsAgent build(const BuildPlace& place) const {
    const auto folder = std::make_shared<const PrivateFolder>();
    if (const auto failure = make(folder->path(), folder->path() / place.name)) {
      return without(
          fmt::format("Compiling its recorder with {} failed ({}). $CXX selects another compiler.",
                      compiler_.string(), failure->said));
    }
    BuiltLibrary kept = keep_library(folder, place);
    return {.library = std::move(kept.path), .missing = {}, .folder = std::move(kept.folder)};
  }

  std::filesystem::path torch_;
  std::filesystem::path sources_;
  std::filesystem::path generator_;
  HeaderFolders headers_;
  std::filesystem::path compiler_;
  std::vector<DeviceLibrary> libraries_;
  std::set<std::filesystem::path> used_;  ///< Folders that contain the families' headers.
};

}  // namespace

CudaCallsAgent find_or_build_cuda_calls_agent(
    const std::filesystem::path& torch_folder,
    const std::function<void(std::string_view)>& progress) {
  return Builder(torch_folder).find_or_build(progress);
}

}  // namespace optrace

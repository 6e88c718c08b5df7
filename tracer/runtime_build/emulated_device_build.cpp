#include "tracer/runtime_build/emulated_device_build.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "platform/error.h"
#include "platform/installation.h"
#include "platform/output_file.h"
#include "platform/whole_file.h"
#include "tracer/device_generator/device_families.h"
#include "tracer/probes/function_roles.h"
#include "tracer/runtime_build/built_for_torch.h"
#include "tracer/runtime_build/cuda_headers.h"
#include "tracer/runtime_build/device_libraries.h"

namespace optrace {
namespace {

constexpr std::string_view kDeviceLibrary = "liboptrace_device.so";
/// Name of the file in a finished folder that lists the libraries, one per line, in preload order.
constexpr std::string_view kList = "libraries";
constexpr std::size_t kCompilersAtOnce = 2;

// All arguments but the paths of headers, sources and results. No -march, because machines of
// different kinds may share a cache. Deprecated functions must be defined like all others.
constexpr std::array kCompileArguments = {"-std=c++17", "-O1", "-fPIC", "-DNDEBUG",
                                          "-Wno-deprecated-declarations"};
constexpr std::array kLinkArguments = {"-shared",
                                       // Their functions are never shown as frames.
                                       "-Wl,--strip-all", "-Wl,-z,nodelete", "-Wl,-z,now",
                                       "-Wl,-z,defs", "-Wl,--as-needed", "-Wl,-rpath,$ORIGIN",
                                       "-Wl,--no-undefined-version"};

// The symbols that the device's library exports to the others. None of the C++ library's, which
// would replace the process's own.
constexpr std::string_view kDeviceExports =
    "{\n  global:\n    optrace_*;\n    _ZN7optrace*;\n    _ZNK7optrace*;\n    _ZT[ISV]N7optrace*;\n"
    // Replaces libc10's function: device_contents.cpp.
    "    _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE;\n"
    "  local: *;\n};\n";

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

/// Returns path, size and time of a file. They change when another file is installed in its place.
std::string identity_of_file(const std::filesystem::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return fmt::format("{} missing", path.string());
  return fmt::format("{} {} {}", path.string(), status.st_size, status.st_mtim.tv_sec);
}

/// Returns the major version of the CUDA runtime's headers: 12 for CUDART_VERSION 12040.
std::optional<int> major_version_of(const std::filesystem::path& runtime_header) {
  const std::string text = read_file(runtime_header).value_or("");
  constexpr std::string_view kMacro = "#define CUDART_VERSION";
  const std::size_t at = text.find(kMacro);
  if (at == std::string::npos) return std::nullopt;
  return std::atoi(text.c_str() + at + kMacro.size()) / 1000;
}

/// A new folder beside the finished ones. The destructor removes it unless name() succeeded.
class NewFolder {
 public:
  explicit NewFolder(const std::filesystem::path& parent) {
    std::string pattern = (parent / ".new-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      throw Error(ExitStatus::failed, describe_errno(errno), "Free space in the cache's folder.");
    path_ = pattern;
  }
  ~NewFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Renames the folder. Returns false if there is one of that name already.
  bool name(const std::filesystem::path& path) {
    if (std::rename(path_.c_str(), path.c_str()) != 0) return false;
    path_.clear();
    return true;
  }

 private:
  std::filesystem::path path_;
};

class Builder {
 public:
  explicit Builder(const std::filesystem::path& torch_folder)
      : torch_(torch_folder),
        sources_(data_folder() / "emulated_device"),
        generator_(library_folder() / "optrace-device-generator"),
        headers_(torch_folder) {}

  DeviceEmulation find_or_build(const std::function<void(std::string_view)>& progress) {
    const auto version = read_file(torch_ / "version.py");
    if (!version)
      return without(fmt::format("{} is not a torch: it has no version.py.", torch_.string()));
    const auto cuda = value_in(*version, "cuda");
    if (!cuda) {
      return without(fmt::format(
          "torch {} in {} is built without CUDA: install a release wheel with CUDA (on Linux: `pip "
          "install torch`).",
          value_in(*version, "__version__").value_or("of no version"), torch_.string()));
    }
    const auto compiler = find_compiler();
    if (!compiler) return without(std::string(kNoCompiler));
    compiler_ = *compiler;
    const auto torch_files = files_of_torch(torch_);
    const std::string key = this->key(*version, torch_files);
    const std::filesystem::path cache = build_cache(kEmulatedDevicesFolder);
    if (!cache.empty())
      if (auto finished = finished_in(cache / key)) return *finished;
    try {
      libraries_ = device_libraries(torch_files);
    } catch (const Error& error) {
      return without(fmt::format("{}. {}", error.what(), error.remedy()));
    }
    if (const std::string lacking = missing_headers(*cuda); !lacking.empty())
      return without(lacking);
    progress(fmt::format("compiling the emulated CUDA device for CUDA {}, once", *cuda));
    return build(cache, key);
  }

 private:
  static DeviceEmulation without(const std::string& why) {
    return {.libraries = {},
            .missing = fmt::format("There is no emulated CUDA device for this torch. {}", why),
            .folder = {}};
  }

  std::string key(const std::string& torch_version,
                  const std::vector<std::filesystem::path>& torch_files) const {
    BuildKey key;
    key.add(torch_version);
    for (const auto& file : torch_files) key.add(identity_of_file(file));
    key.add(identity_of(compiler_));
    key.add(identity_of_file(generator_));
    for (const auto& argument : kCompileArguments) key.add(argument);
    for (const auto& argument : kLinkArguments) key.add(argument);
    for (const DeviceFamily& family : device_families())
      for (const std::string_view header : family.headers)
        if (!header.empty())
          key.add(identity_of_file(headers_.folder_of(header).value_or("") / header));
    key.add_files_below(sources_);
    return key.hex();
  }

  /// Returns the result of an earlier run; nullopt if any of its files is missing.
  static std::optional<DeviceEmulation> finished_in(const std::filesystem::path& folder) {
    std::ifstream list(folder / kList);
    DeviceEmulation emulation;
    for (std::string name; std::getline(list, name);) {
      if (!is_there(folder / name)) return std::nullopt;
      emulation.libraries.push_back(folder / name);
    }
    if (emulation.libraries.empty()) return std::nullopt;
    return emulation;
  }

  /// Returns a message if headers are missing or belong to another CUDA version, else an empty
  /// string. Adds the other headers' folders to used_.
  std::string missing_headers(const std::string& cuda) {
    std::vector<const DeviceFamily*> missing;
    for (const DeviceLibrary& library : libraries_) {
      const DeviceFamily& family = *library.family;
      if (const auto folder = headers_.folder_of(family.headers.front())) {
        used_.insert(*folder);
      } else if (!family.wheel.empty() && (!library.functions.empty() || !family.always.empty() ||
                                           !sources_of(family.name).empty())) {
        missing.push_back(&family);
      }
    }
    if (!missing.empty()) {
      return fmt::format("Compiling it needs the headers of CUDA's libraries, and {}",
                         lacking_headers(missing, torch_, cuda));
    }
    const DeviceFamily& runtime = *device_family("cudart");
    const auto folder = headers_.folder_of(runtime.headers.front());
    if (!folder) return {};
    const auto major = major_version_of(*folder / runtime.headers.front());
    if (major && std::to_string(*major) != cuda.substr(0, cuda.find('.'))) {
      return fmt::format(
          "This torch is built with CUDA {}, but the headers in {} are CUDA {}'s: pip install '{}'",
          cuda, folder->string(), *major, requirement(torch_, runtime, cuda));
    }
    return {};
  }

  /// Returns the source files of the device itself.
  std::vector<std::filesystem::path> device_sources() const { return sources("device", "device"); }

  /// Returns the source files of a family of libraries.
  std::vector<std::filesystem::path> sources_of(std::string_view family) const {
    return sources("libraries", family);
  }

  /// Returns NAME.cpp and NAME_*.cpp in a folder.
  std::vector<std::filesystem::path> sources(std::string_view folder, std::string_view name) const {
    std::vector<std::filesystem::path> found;
    std::error_code error;
    for (const auto& entry :
         std::filesystem::directory_iterator(sources_ / "tracer/emulated_device" / folder, error)) {
      const std::string stem = entry.path().stem().string();
      if (entry.path().extension() == ".cpp" &&
          (stem == name || stem.starts_with(fmt::format("{}_", name))))
        found.push_back(entry.path());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  BuildStep compile_step(const std::filesystem::path& source, const std::filesystem::path& object,
                         const std::vector<std::string>& more) const {
    BuildStep step{compiler_.string()};
    step.insert(step.end(), kCompileArguments.begin(), kCompileArguments.end());
    step.insert(step.end(), more.begin(), more.end());
    for (const std::string& argument : {std::string("-I"), sources_.string(), std::string("-c"),
                                        source.string(), std::string("-o"), object.string()})
      step.push_back(argument);
    const auto headers = header_arguments();
    step.insert(step.end(), headers.begin(), headers.end());
    return step;
  }

  std::vector<std::string> header_arguments() const {
    std::vector<std::string> arguments = headers_.arguments(used_);
    arguments.emplace_back("-idirafter");
    arguments.push_back((sources_ / "tracer" / "emulated_device" / "stand_ins").string());
    return arguments;
  }

  BuildStep link_step(const std::string& soname, const std::filesystem::path& library,
                      const std::filesystem::path& script,
                      const std::vector<std::filesystem::path>& objects) const {
    BuildStep step{compiler_.string()};
    step.insert(step.end(), kLinkArguments.begin(), kLinkArguments.end());
    step.push_back(fmt::format("-Wl,-soname,{}", soname));
    step.push_back(fmt::format("-Wl,--version-script,{}", script.string()));
    step.emplace_back("-o");
    step.push_back(library.string());
    for (const auto& object : objects) step.push_back(object.string());
    step.emplace_back("-pthread");
    step.emplace_back("-ldl");
    return step;
  }

  /// Builds everything in `folder`, and the libraries in a subfolder with the name of the cache's
  /// folder.
  std::optional<BuildFailure> make(const std::filesystem::path& folder) const {
    const std::filesystem::path result = folder / kEmulatedDevicesFolder;
    std::filesystem::create_directory(result);
    std::vector<BuildStep> generate;
    std::vector<BuildStep> compile;
    std::vector<std::string> compiled;  // Names of the sources.
    std::map<std::string, std::vector<std::filesystem::path>> objects;
    for (const auto& source : device_sources()) {
      const auto object = folder / source.filename().replace_extension(".o");
      compile.push_back(compile_step(source, object, {"-fvisibility=hidden"}));
      compiled.push_back(source.filename());
      objects[std::string(kDeviceLibrary)].push_back(object);
    }
    std::string list = fmt::format("{}\n", kDeviceLibrary);
    for (const DeviceLibrary& library : libraries_) {
      const std::string name(library.family->name);
      std::string functions;
      for (const auto& [version, names] : library.functions)
        for (const std::string& function : names) functions += function + "\n";
      write_file(folder / (name + ".functions"), functions);
      write_file(folder / (library.soname + ".script"), version_script(library));
      const auto generated = folder / (name + "-generated.cpp");
      generate.push_back({generator_.string(), "define", name,
                          (folder / (name + ".functions")).string(), generated.string()});
      const auto headers = header_arguments();
      generate.back().insert(generate.back().end(), headers.begin(), headers.end());
      auto sources = sources_of(name);
      sources.push_back(generated);
      for (const auto& source : sources) {
        const auto object = folder / source.filename().replace_extension(".o");
        compile.push_back(compile_step(source, object, {}));
        compiled.push_back(source.filename());
        objects[library.soname].push_back(object);
      }
      list += library.soname + "\n";
    }
    write_file(result / kList, list);
    if (auto failure = run_build_steps(generate, kCompilersAtOnce, folder)) return failure;
    if (auto failure = run_build_steps(compile, kCompilersAtOnce, folder)) {
      failure->said = fmt::format("{}: {}", compiled[failure->step], failure->said);
      return failure;
    }

    // Links in the order of dependencies: the device, the driver, the runtime, and then their
    // users.
    write_file(folder / "device.script", kDeviceExports);
    std::vector<std::filesystem::path> below{result / kDeviceLibrary};
    if (auto failure = run_build_steps(
            {link_step(std::string(kDeviceLibrary), below.front(), folder / "device.script",
                       objects[std::string(kDeviceLibrary)])},
            1, folder))
      return failure;
    for (const std::string_view name : {"cuda", "cudart", ""}) {
      std::vector<BuildStep> link;
      std::vector<std::filesystem::path> linked;
      for (const DeviceLibrary& library : libraries_) {
        const std::string_view family = library.family->name;
        if (name.empty() ? family == "cuda" || family == "cudart" : family != name) continue;
        auto parts = objects[library.soname];
        parts.insert(parts.end(), below.begin(), below.end());
        linked.push_back(result / library.soname);
        link.push_back(
            link_step(library.soname, linked.back(), folder / (library.soname + ".script"), parts));
      }
      if (auto failure = run_build_steps(link, kCompilersAtOnce, folder)) return failure;
      below.insert(below.end(), linked.begin(), linked.end());
    }
    // A linker looks for this name: Triton links its kernel launchers with -lcuda.
    if (is_there(result / "libcuda.so.1"))
      std::filesystem::copy(result / "libcuda.so.1", result / "libcuda.so");
    return std::nullopt;
  }

  // Caches the result. Returns nullopt if it can't be cached.
  static std::optional<DeviceEmulation> keep(const std::filesystem::path& result,
                                             const std::filesystem::path& cache,
                                             const std::string& key) {
    try {
      NewFolder kept(cache);
      std::filesystem::copy(result, kept.path());
      // Another process may have been faster. A folder with missing files is replaced.
      if (!kept.name(cache / key) && !finished_in(cache / key)) {
        std::filesystem::remove_all(cache / key);
        kept.name(cache / key);
      }
      return finished_in(cache / key);
    } catch (const std::exception&) {
      return std::nullopt;  // E.g. a full disk. The next run builds again.
    }
  }

  DeviceEmulation build(const std::filesystem::path& cache, const std::string& key) const {
    const auto folder = std::make_shared<const PrivateFolder>();
    if (const auto failure = make(folder->path())) {
      return without(fmt::format("Compiling it with {} failed ({}). $CXX selects another compiler.",
                                 compiler_.string(), failure->said));
    }
    const std::filesystem::path result = folder->path() / kEmulatedDevicesFolder;
    if (!cache.empty())
      if (auto kept = keep(result, cache, key)) return *std::move(kept);
    auto emulation = finished_in(result);
    if (!emulation) return without("Its libraries disappeared while they were compiled.");
    emulation->folder = folder;
    return *emulation;
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

DeviceEmulation find_or_build_device_emulation(
    const std::filesystem::path& torch_folder,
    const std::function<void(std::string_view)>& progress) {
  return Builder(torch_folder).find_or_build(progress);
}

}  // namespace optrace

// optrace-prebuild --pack FOLDER...: compresses the prebuilt libraries of these kinds.
//
// optrace-prebuild --current FOLDER: prints the names of the torches whose op-record agent in
// FOLDER is built from the present source.
//
// optrace-prebuild --op-agents FOLDER TORCH...: makes the prebuilt op-record agents for torches
// (site-packages/torch) in FOLDER.
//
// optrace-prebuild FOLDER TORCH...: makes the prebuilt libraries (target/build/prebuilt.h)
// for torches in FOLDER. Of a torch, it needs include/, version.py and lib/libc10.so. It prints a
// line of JSON for each torch: its name, what its op-record agent depends on, and the name of the
// torch whose agent it takes. For the torches whose libraries need CUDA's, with the nvidia wheels
// beside one of them, it also makes the libraries for CUDA: a set for each major version, which
// serves all of these torches, and a line of JSON for each set.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "gpu/build/activity_agent.h"
#include "gpu/build/cuda_calls_agent.h"
#include "gpu/build/device_libraries.h"
#include "gpu/build/emulated_device_build.h"
#include "gpu/libraries/device_families.h"
#include "platform/elf/dynamic_symbols.h"
#include "platform/error.h"
#include "platform/files/whole_file.h"
#include "platform/process/interrupt.h"
#include "platform/text/joined.h"
#include "pytorch/installed/torch_version.h"
#include "target/build/built_for_torch.h"
#include "target/build/op_agent.h"
#include "target/build/prebuilt.h"

namespace optrace {
namespace {

const std::filesystem::path kPortable = OPTRACE_PORTABLE_SOURCES;

[[noreturn]] void fail(const std::string& what, const std::string& remedy) {
  throw Error(ExitStatus::failed, what, remedy);
}

/// Runs one program of a build.
void run_step(const BuildStep& step, const std::filesystem::path& folder) {
  if (const auto failure = run_build_steps({step}, 1, folder, InterruptGuard::throw_if_interrupted))
    fail(fmt::format("{} failed: {}", step.front(), failure->said), "See its message.");
}

/// Returns an archive with libstdc++'s std::to_chars() for floating-point numbers, which is newer
/// than the libstdc++ of some systems. It calls nothing that has a state, so a process may have
/// two.
std::filesystem::path number_formatting(const std::filesystem::path& folder) {
  const std::filesystem::path libraries = OPTRACE_STATIC_STANDARD_LIBRARY;
  const auto archive = folder / "libnumber_formatting.a";
  constexpr const char* kObject = "floating_to_chars.o";
  const auto scratch = folder / "number_formatting";
  std::filesystem::create_directory(scratch);
  run_step({"ar", "x", "--output", scratch.string(), libraries.string(), kObject}, folder);
  run_step({"ar", "rcs", archive.string(), (scratch / kObject).string()}, folder);
  return archive;
}

/// Adds an empty library that has the name of one of torch's.
void add_stand_in(const std::string& name, const std::filesystem::path& folder,
                  BuildContents& contents) {
  const auto source = folder / ("stand_in_" + name + ".cpp");
  write_file(source, "");
  contents.libraries.push_back(
      {.name = name, .sources = {source}, .link_flags = {"-Wl,-soname," + name}});
}

/// Makes a description's libraries run with every glibc and libstdc++ that a released torch runs
/// with, and without torch's libraries at hand.
void make_portable(BuildDescription& description) {
  description.compile_flags.insert(description.compile_flags.end(),
                                   {"-ffunction-sections", "-fno-sized-deallocation", "-include",
                                    (kPortable / "old_libc.h").string()});
  // Before glibc 2.34, three libraries had functions that this machine's libc.so.6 has.
  description.link_flags.insert(
      description.link_flags.end(),
      {"-Wl,--gc-sections", "-Wl,--strip-all", "-Wl,--push-state,--no-as-needed", "-l:libdl.so.2",
       "-l:libpthread.so.0", "-l:librt.so.1", "-Wl,--pop-state"});
  description.contents = [make = std::move(description.contents)](const auto& folder) {
    BuildContents contents = make(folder);
    for (LibraryToBuild& library : contents.libraries) {
      // Sources have names of their own.
      const auto source = folder / ("old_standard_library_" + library.name + ".cpp");
      std::filesystem::copy_file(kPortable / "old_standard_library.cpp", source);
      library.sources.push_back(source);
      ++library.level;
    }
    for (const std::string& library : std::exchange(contents.linked_with, {}))
      if (library.starts_with("-l"))
        contents.linked_with.push_back(library);
      else
        add_stand_in(std::filesystem::path(library).filename(), folder, contents);
    contents.linked_with.push_back(number_formatting(folder).string());
    return contents;
  };
}

/// Returns (GLIBC, 2.17) for GLIBC_2.17.
std::pair<std::string, std::vector<int>> parsed_version(const std::string& version) {
  const std::size_t end = std::min(version.find('_'), version.size());
  std::vector<int> numbers;
  for (std::size_t at = end; at < version.size();
       at = std::min(version.find('.', at + 1), version.size()))
    numbers.push_back(std::atoi(version.c_str() + at + 1));
  return {version.substr(0, end), std::move(numbers)};
}

/// Returns the newest version of each of the system's libraries that the file needs.
std::map<std::string, std::vector<int>> needed_versions(const std::filesystem::path& library) {
  std::map<std::string, std::vector<int>> newest;
  for (const DynamicImport& symbol : read_dynamic_imports(library).symbols) {
    auto [name, version] = parsed_version(symbol.version);
    newest[name] = std::max(newest[name], version);
  }
  return newest;
}

/// Throws if the library needs something newer than torch's own libc10 does.
void require_no_newer(const std::filesystem::path& library, const std::filesystem::path& torch) {
  auto newest = needed_versions(torch / "lib/libc10.so");
  std::vector<std::string> newer;
  for (const DynamicImport& symbol : read_dynamic_imports(library).symbols) {
    const auto [name, version] = parsed_version(symbol.version);
    if (version > newest[name]) newer.push_back(symbol.name + "@" + symbol.version);
  }
  if (!newer.empty())
    fail(fmt::format("{} needs {}, which {} newer than what torch needs",
                     library.filename().string(), joined(newer, ", "),
                     newer.size() == 1 ? "is" : "are"),
         "Do without, or add it to target/build/portable/.");
}

/// Returns the headers that a build read of the torch, relative to its include folder, sorted.
std::vector<std::filesystem::path> headers_of(const FreshBuild& build,
                                              const std::filesystem::path& torch) {
  const auto include = std::filesystem::canonical(torch / "include");
  std::vector<std::filesystem::path> headers;
  for (const auto& input : build.inputs) {
    const auto relative = input.lexically_relative(include);
    if (!relative.empty() && *relative.begin() != "..") headers.push_back(relative);
  }
  std::ranges::sort(headers);
  return headers;
}

/// Returns what a library imports of torch, whose symbols have no version.
std::vector<std::string> imports_of(const std::filesystem::path& library) {
  std::vector<std::string> imports;
  for (const DynamicImport& symbol : read_dynamic_imports(library).symbols)
    if (!symbol.weak && symbol.version.empty()) imports.push_back(symbol.name);
  return imports;
}

/// Compiles a description's libraries in their portable form.
FreshBuild build_portable(BuildDescription description,
                          const std::vector<std::filesystem::path>& torches) {
  make_portable(description);
  FreshBuild fresh = build_afresh(description);
  if (fresh.built.libraries.empty()) fail(fresh.built.missing, "Mend its source or its compiler.");
  for (const auto& library : fresh.built.libraries)
    for (const auto& torch : torches) require_no_newer(library, torch);
  return fresh;
}

/// Builds the agent for a torch into a folder of that name.
Prebuilt build_op_agent(const std::filesystem::path& torch, const BuildDescription& description,
                        const std::filesystem::path& folder) {
  Prebuilt prebuilt{.folder = folder, .source_key = source_key(description)};
  const FreshBuild fresh = build_portable(description, {torch});
  prebuilt.headers = headers_of(fresh, torch);
  prebuilt.headers_hash = HeaderHashes(torch / "include").of(prebuilt.headers);
  prebuilt.imports = imports_of(fresh.built.library());
  store_prebuilt(prebuilt, {fresh.built.library()});
  return prebuilt;
}

/// Returns the agent for a torch, which may be that of another torch.
Prebuilt op_agent(const std::filesystem::path& torch, const std::string& name,
                  const std::filesystem::path& folder) {
  const BuildDescription description = op_agent_description(torch);
  if (!description.misfit)
    fail(description.obstacle(), "Give the folder torch of a release wheel.");
  HeaderHashes hashes(torch / "include");
  const std::string source = source_key(description);
  for (Prebuilt& known : prebuilt_libraries(folder))
    if (known.source_key == source && hashes.of(known.headers) == known.headers_hash)
      return std::move(known);
  return build_op_agent(torch, description, folder / name);
}

void prebuild(const std::filesystem::path& folder, const std::filesystem::path& torch) {
  const auto version = read_torch_version(torch);
  if (!version || !version->version)
    fail(fmt::format("{} is no torch: it has no version.py", torch.string()),
         "Give the folder torch in site-packages.");
  const std::string name = "torch-" + version->version->substr(0, version->version->find('+'));
  const BuildDescription description = op_agent_description(torch);
  const Prebuilt agent = op_agent(torch, name, folder / description.cache);
  fmt::print("{}\n", nlohmann::json{{"torch", name},
                                    {"op_agent", agent.folder.filename().string()},
                                    {"headers", agent.headers.size()},
                                    {"headers_hash", agent.headers_hash}}
                         .dump());
  std::fflush(stdout);
}

// Libraries for CUDA.

/// Torches with the same major version of CUDA, those with the newest minor version first.
struct CudaTorches {
  std::string cuda{};  ///< The version of the first one.
  std::vector<std::filesystem::path> folders{};
};

/// Returns the torches whose libraries need CUDA's runtime, by major version.
std::map<std::string, CudaTorches> cuda_torches(const std::vector<std::filesystem::path>& torches) {
  std::multimap<std::vector<int>, std::pair<std::string, std::filesystem::path>> by_version;
  for (const auto& torch : torches) {
    const auto version = read_torch_version(torch);
    if (!version || !version->cuda) continue;
    const auto libraries = device_libraries(files_of_torch(torch));
    if (std::ranges::count(libraries, device_family("cudart"), &DeviceLibrary::family) != 0)
      by_version.emplace(parsed_version("_" + *version->cuda).second,
                         std::pair(*version->cuda, torch));
  }
  std::map<std::string, CudaTorches> result;
  for (auto entry = by_version.rbegin(); entry != by_version.rend(); ++entry) {
    const auto& [cuda, torch] = entry->second;
    CudaTorches& group = result[std::string(cuda_major(cuda))];
    if (group.folders.empty()) group.cuda = cuda;
    group.folders.push_back(torch);
  }
  return result;
}

/// Returns what the emulated libraries define.
CudaFunctions defined_functions(const FreshBuild& device) {
  CudaFunctions functions;
  for (const auto& library : device.built.libraries)
    if (const std::string soname = library.filename(); family_of_library(soname) != nullptr)
      for (const DynamicExport& symbol : read_dynamic_exports(library))
        functions[soname][symbol.version].insert(symbol.name);
  return functions;
}

/// Returns those of the functions whose calls are recorded.
CudaFunctions recorded_functions(CudaFunctions functions) {
  std::erase_if(functions, [](const auto& entry) {
    return !records_calls_of(*family_of_library(entry.first));
  });
  return functions;
}

/// Returns the libraries of a kind for the torches. Builds them unless there are some that fit.
/// `functions` returns what they define or record.
Prebuilt cuda_libraries(const CudaTorches& torches, BuildDescription description,
                        const std::filesystem::path& folder,
                        const std::function<CudaFunctions(const FreshBuild&)>& functions) {
  const auto kind = folder / description.cache;
  Prebuilt prebuilt{.folder = kind / fmt::format("cuda-{}", cuda_major(torches.cuda)),
                    .source_key = source_key(description),
                    .cuda = torches.cuda};
  for (Prebuilt& known : prebuilt_libraries(kind))
    if (known.source_key == prebuilt.source_key && description.misfit(known).empty())
      return std::move(known);
  if (const std::string obstacle = description.obstacle(); !obstacle.empty())
    fail(obstacle, "Or leave this torch out.");
  // The only strings that the oldest torches' libstdc++ has.
  description.compile_flags.emplace_back("-D_GLIBCXX_USE_CXX11_ABI=0");
  const FreshBuild fresh = build_portable(std::move(description), torches.folders);
  prebuilt.functions = functions(fresh);
  std::vector<std::filesystem::path> files = fresh.built.libraries;
  files.insert(files.end(), fresh.texts.begin(), fresh.texts.end());
  std::filesystem::remove_all(prebuilt.folder);
  store_prebuilt(prebuilt, files);
  return prebuilt;
}

void prebuild_for_cuda(const std::filesystem::path& folder, const CudaTorches& torches) {
  const BuildDescription description = emulated_device_description(torches.folders);
  const Prebuilt device = cuda_libraries(torches, description, folder, defined_functions);
  cuda_libraries(torches, cuda_calls_agent_description(torches.folders), folder,
                 [&](const FreshBuild&) { return recorded_functions(device.functions); });
  cuda_libraries(torches, activity_agent_description(torches.folders), folder,
                 [](const FreshBuild&) { return CudaFunctions(); });
  fmt::print("{}\n",
             nlohmann::json{{"cuda", device.cuda}, {"libraries", device.folder.filename().string()}}
                 .dump());
  std::fflush(stdout);
}

/// Returns the folders of torches, without links.
std::vector<std::filesystem::path> canonical(std::span<const std::filesystem::path> folders) {
  std::vector<std::filesystem::path> torches;
  torches.reserve(folders.size());
  for (const auto& folder : folders) torches.push_back(std::filesystem::canonical(folder));
  return torches;
}

void prebuild_op_agents(const std::filesystem::path& folder,
                        const std::vector<std::filesystem::path>& torches) {
  for (const auto& torch : torches) prebuild(folder, torch);
}

void prebuild_all(const std::filesystem::path& folder,
                  const std::vector<std::filesystem::path>& torches) {
  prebuild_op_agents(folder, torches);
  for (const auto& [major, group] : cuda_torches(torches)) prebuild_for_cuda(folder, group);
}

void print_current(const std::filesystem::path& folder) {
  const BuildDescription old_abi = op_agent_description(0);
  const std::vector<std::string> keys{source_key(old_abi), source_key(op_agent_description(1))};
  for (const Prebuilt& prebuilt : prebuilt_libraries(folder / old_abi.cache))
    if (std::ranges::count(keys, prebuilt.source_key) != 0)
      fmt::print("{}\n", prebuilt.folder.filename().string());
}

void run(const std::vector<std::string>& words) {
  const std::vector<std::filesystem::path> folders(words.begin() + 1, words.end());
  if (words[0] == "--pack") {
    for (const auto& folder : folders) pack_prebuilt(folder);
  } else if (words[0] == "--current") {
    for (const auto& folder : folders) print_current(folder);
  } else if (words[0] == "--op-agents") {
    prebuild_op_agents(folders.at(0), canonical(std::span(folders).subspan(1)));
  } else {
    prebuild_all(words[0], canonical(folders));
  }
}

}  // namespace
}  // namespace optrace

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.size() < 2) {
    fmt::print(stderr,
               "usage: optrace-prebuild FOLDER TORCH...\n       optrace-prebuild --pack FOLDER...\n"
               "       optrace-prebuild --op-agents FOLDER TORCH...\n"
               "       optrace-prebuild --current FOLDER\n");
    return static_cast<int>(optrace::ExitStatus::usage);
  }
  try {
    optrace::run(words);
  } catch (const optrace::Error& error) {
    fmt::print(stderr, "optrace-prebuild: {}. {}\n", error.what(), error.remedy());
    return static_cast<int>(error.status());
  } catch (const std::exception& error) {
    fmt::print(stderr, "optrace-prebuild: {}\n", error.what());
    return static_cast<int>(optrace::ExitStatus::failed);
  }
}

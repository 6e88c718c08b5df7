// optrace-prebuild --pack FOLDER...: compresses the prebuilt libraries of these kinds.
//
// optrace-prebuild --current FOLDER: prints the names of the torches whose op-record agent in
// FOLDER is built from the present source.
//
// optrace-prebuild FOLDER TORCH...: makes the prebuilt libraries (tracer/runtime_build/prebuilt.h)
// for torches (site-packages/torch) in FOLDER. Of a torch, it needs include/, version.py and
// lib/libc10.so. It prints a line of JSON for each torch: its name, what its op-record agent
// depends on, and the name of the torch whose agent it takes.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "platform/error.h"
#include "platform/interrupt.h"
#include "platform/torch_version.h"
#include "platform/whole_file.h"
#include "tracer/elf/dynamic_symbols.h"
#include "tracer/runtime_build/built_for_torch.h"
#include "tracer/runtime_build/op_agent.h"
#include "tracer/runtime_build/prebuilt.h"

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
  description.link_flags.insert(description.link_flags.end(),
                                {"-Wl,--gc-sections", "-Wl,--strip-all"});
  description.contents = [make = std::move(description.contents)](const auto& folder) {
    BuildContents contents = make(folder);
    for (LibraryToBuild& library : contents.libraries) {
      library.sources.push_back(kPortable / "old_standard_library.cpp");
      ++library.level;
    }
    for (const std::string& library : std::exchange(contents.linked_with, {}))
      add_stand_in(std::filesystem::path(library).filename(), folder, contents);
    contents.linked_with = {number_formatting(folder).string()};
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
                     library.filename().string(), fmt::join(newer, ", "),
                     newer.size() == 1 ? "is" : "are"),
         "Do without, or add it to tracer/runtime_build/portable/.");
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

/// Builds the agent for a torch into a folder of that name.
Prebuilt build_op_agent(const std::filesystem::path& torch, BuildDescription description,
                        const std::filesystem::path& folder) {
  Prebuilt prebuilt{.folder = folder, .source_key = source_key(description)};
  make_portable(description);
  const FreshBuild fresh = build_afresh(description);
  if (fresh.built.libraries.empty()) fail(fresh.built.missing, "Mend its source or its compiler.");
  const auto library = fresh.built.library();
  require_no_newer(library, torch);
  prebuilt.headers = headers_of(fresh, torch);
  prebuilt.headers_hash = HeaderHashes(torch / "include").of(prebuilt.headers);
  prebuilt.imports = imports_of(library);
  store_prebuilt(prebuilt, fresh.built.libraries);
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

void print_current(const std::filesystem::path& folder) {
  const BuildDescription old_abi = op_agent_description(0);
  const std::vector<std::string> keys{source_key(old_abi), source_key(op_agent_description(1))};
  for (const Prebuilt& prebuilt : prebuilt_libraries(folder / old_abi.cache))
    if (std::ranges::count(keys, prebuilt.source_key) != 0)
      fmt::print("{}\n", prebuilt.folder.filename().string());
}

void run(const std::vector<std::string>& words) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[0] == "--pack") {
      pack_prebuilt(words[i]);
    } else if (words[0] == "--current") {
      print_current(words[i]);
    } else {
      prebuild(words[0], std::filesystem::canonical(words[i]));
    }
  }
}

}  // namespace
}  // namespace optrace

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.size() < 2) {
    fmt::print(stderr,
               "usage: optrace-prebuild FOLDER TORCH...\n       optrace-prebuild --pack FOLDER...\n"
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

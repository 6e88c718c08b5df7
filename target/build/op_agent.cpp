#include "target/build/op_agent.h"

#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "platform/elf/dynamic_symbols.h"
#include "platform/error.h"
#include "platform/files/cache_folders.h"
#include "platform/files/installation.h"
#include "platform/files/mapped_file.h"
#include "pytorch/installed/torch_version.h"
#include "pytorch/installed/wheel_libraries.h"

namespace optrace {
namespace {

constexpr std::array kOpAgentSources = {
    "op_records.cpp",
    "callees.cpp",
    "libraries/library_calls.cpp",
    "libraries/blas_calls.cpp",
    "libraries/onednn_calls.cpp",
    "tensors/tensor_facts.cpp",
    "tensors/tensor_log.cpp",
    "tensors/python_variables.cpp",
    "tensors/saved_variables.cpp",
    "tensors/tensor_swaps.cpp",
    "tensors/python_functions.cpp",
    "tensors/tensor_search.cpp",
};

// The libraries of torch that the agent calls.
constexpr std::array kCalledLibraries = {kC10, kTorchCpu};

/// Returns the value of _GLIBCXX_USE_CXX11_ABI that torch was built with, derived from the mangled
/// std::string in libc10's own functions; nullopt if that is not a torch.
std::optional<int> string_abi(const std::filesystem::path& torch_folder) {
  try {
    const MappedFile library(torch_folder / "lib" / kC10);
    const auto bytes = library.bytes();
    const std::string_view text{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    // c10::Error::Error(c10::SourceLocation, std::string)
    constexpr std::string_view kConstructor = "_ZN3c105ErrorC2ENS_14SourceLocationE";
    for (std::size_t at = text.find(kConstructor); at != std::string_view::npos;
         at = text.find(kConstructor, at + 1)) {
      const std::string_view rest = text.substr(at + kConstructor.size(), 16);
      if (rest.starts_with("NSt7__cxx1112ba")) return 1;
      if (rest.starts_with("Ss")) return 0;
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  return std::nullopt;
}

bool has_headers(const std::filesystem::path& torch_folder) {
  std::error_code error;
  return std::filesystem::exists(torch_folder / "include" / "ATen" / "record_function.h", error);
}

BuildContents contents_for(const std::filesystem::path& torch_folder,
                           const std::filesystem::path& sources) {
  LibraryToBuild library{.name = "liboptrace_ops.so", .sources = {}};
  for (const char* const source : kOpAgentSources)
    library.sources.push_back(sources / "target/op_recorder" / source);
  BuildContents contents{.includes = {"-isystem", (torch_folder / "include").string()},
                         .libraries = {std::move(library)}};
  // Linked, so that the process's own libraries are found: nothing else makes them visible.
  for (const std::string_view torch_library : kCalledLibraries)
    contents.linked_with.push_back((torch_folder / "lib" / torch_library).string());
  return contents;
}

/// The rule by which a prebuilt agent fits a torch: the headers that it was compiled with have the
/// same contents there, and the torch exports all that it imports.
class PrebuiltRule {
 public:
  explicit PrebuiltRule(const std::filesystem::path& torch_folder)
      : library_folder_(torch_folder / "lib"), hashes_(torch_folder / "include") {}

  std::string misfit(const Prebuilt& prebuilt) {
    if (hashes_.of(prebuilt.headers) != prebuilt.headers_hash) return "has other headers";
    try {
      return missing_symbol(prebuilt.imports);
    } catch (const std::exception& error) {
      return fmt::format("can't be compared ({})", error.what());
    }
  }

 private:
  std::string missing_symbol(const std::vector<std::string>& imports) const {
    std::set<std::string> missing(imports.begin(), imports.end());
    for (const std::string_view library : kCalledLibraries) {
      const DynamicExports exports = find_exports(library_folder_ / library, missing);
      if (exports.soname != library) return fmt::format("needs a library named {}", library);
      for (const std::string& name : exports.found) missing.erase(name);
    }
    return missing.empty() ? "" : fmt::format("needs a function named {}", *missing.begin());
  }

  std::filesystem::path library_folder_;
  HeaderHashes hashes_;
};

}  // namespace

BuildDescription op_agent_description(int abi) {
  return {
      .lacks =
          "The trace lacks op records: arguments, results, and why the dispatcher chose a kernel.",
      .progress = "compiling the op-record agent for this torch, once",
      .building = "Compiling the op-record agent",
      .cache = cache_folders::kOpAgents,
      .sources = data_folder() / "op_records",
      // Newer torch needs C++20; a compiler without it may still build for an older torch.
      .standards = {"-std=c++20", "-std=c++17"},
      .compile_flags = {"-O2", "-fPIC", "-fvisibility=hidden", "-DNDEBUG",
                        fmt::format("-D_GLIBCXX_USE_CXX11_ABI={}", abi)},
      .link_flags = {"-shared", "-Wl,-z,nodelete", "-Wl,-z,now", "-Wl,--no-as-needed"},
  };
}

BuildDescription op_agent_description(const std::filesystem::path& torch_folder) {
  const auto version = read_torch_version(torch_folder);
  const auto abi = string_abi(torch_folder);
  BuildDescription build = op_agent_description(abi.value_or(1));
  build.torch_folder = torch_folder;
  if (!version || !abi || !has_headers(torch_folder)) {
    build.obstacle = [torch_folder] {
      return fmt::format(
          "{} has no C++ headers, or those of another version: install a release wheel of torch.",
          torch_folder.string());
    };
    return build;
  }
  build.key = {version->text};
  build.misfit = [rule = std::make_shared<PrebuiltRule>(torch_folder)](const Prebuilt& prebuilt) {
    return rule->misfit(prebuilt);
  };
  build.contents = [torch_folder, sources = build.sources](const auto&) {
    return contents_for(torch_folder, sources);
  };
  return build;
}

BuiltLibraries find_or_build_op_agent(const std::filesystem::path& torch_folder,
                                      const BuildProgress& progress) {
  return find_or_build(op_agent_description(torch_folder), progress);
}

}  // namespace optrace

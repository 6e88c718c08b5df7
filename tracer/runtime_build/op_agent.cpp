#include "tracer/runtime_build/op_agent.h"

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "platform/error.h"
#include "platform/installation.h"
#include "platform/json_reader.h"
#include "platform/mapped_file.h"
#include "platform/whole_file.h"
#include "tracer/runtime_build/built_for_torch.h"

namespace optrace {
namespace {

constexpr std::string_view kLacks =
    "The trace lacks op records: arguments, results, and why the dispatcher chose a kernel.";
constexpr std::array kSources = {"op_records.cpp", "library_calls.cpp", "blas_calls.cpp",
                                 "onednn_calls.cpp"};

// All arguments but the paths of torch, sources and the result. No -march, because machines of
// different kinds may share a cache.
constexpr std::array kCompileArguments = {"-O2", "-fPIC", "-fvisibility=hidden", "-DNDEBUG"};
constexpr std::array kLinkArguments = {"-shared", "-Wl,-z,nodelete", "-Wl,-z,now",
                                       "-Wl,--no-as-needed"};

/// Returns the value of _GLIBCXX_USE_CXX11_ABI that torch was built with, derived from the mangled
/// std::string in libc10's own functions; nullopt if that is no torch.
std::optional<int> string_abi(const std::filesystem::path& torch_folder) {
  try {
    const MappedFile library(torch_folder / "lib" / "libc10.so");
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

class Builder {
 public:
  explicit Builder(const std::filesystem::path& torch_folder)
      : torch_(torch_folder), sources_(data_folder() / "op_records") {}

  OpAgent find_or_build(const std::function<void(std::string_view)>& progress) {
    const auto version = read_file(torch_ / "version.py");
    const auto abi = string_abi(torch_);
    std::error_code error;
    if (!version || !abi ||
        !std::filesystem::exists(torch_ / "include" / "ATen" / "record_function.h", error)) {
      return without(fmt::format(
          "{} has no C++ headers, or those of another version: install a release wheel of torch.",
          torch_.string()));
    }
    abi_ = *abi;
    const auto compiler = find_compiler();
    if (!compiler) return without(std::string(kNoCompiler));
    compiler_ = *compiler;
    const std::string name = fmt::format("liboptrace_ops-{}.so", key(*version));
    const BuildPlace place{build_cache("op-agents"), name, torch_.parent_path(), compiler_};
    if (auto kept = kept_library(place))
      return {.library = std::move(*kept), .missing = {}, .folder = {}, .not_kept = {}};
    progress("compiling the op-record agent for this torch, once");
    return build(place);
  }

 private:
  static OpAgent without(const std::string& why) {
    return {
        .library = {}, .missing = fmt::format("{} {}", kLacks, why), .folder = {}, .not_kept = {}};
  }

  std::string key(const std::string& torch_version) const {
    BuildKey key;
    key.add(torch_version);
    key.add(abi_ == 0 ? "0" : "1");
    key.add(identity_of(compiler_));
    for (const char* const argument : kCompileArguments) key.add(argument);
    for (const char* const argument : kLinkArguments) key.add(argument);
    key.add_files_below(sources_);
    return key.hex();
  }

  OpAgent build(const BuildPlace& place) const {
    BuiltLibrary built = build_library(place, library_build());
    if (built.path.empty()) {
      return without(fmt::format(
          "Compiling the op-record agent with {} failed ({}). $CXX selects another compiler.",
          compiler_.string(), built.failure));
    }
    return {.library = std::move(built.path),
            .missing = {},
            .folder = std::move(built.folder),
            .not_kept = std::move(built.not_kept)};
  }

  LibraryBuild library_build() const {
    LibraryBuild build{{},
                       {kCompileArguments.begin(), kCompileArguments.end()},
                       {kLinkArguments.begin(), kLinkArguments.end()}};
    const std::filesystem::path include = torch_ / "include";
    build.compile.insert(build.compile.end(),
                         {fmt::format("-D_GLIBCXX_USE_CXX11_ABI={}", abi_), "-isystem",
                          include.string(), "-I", sources_.string()});
    for (const char* const source : kSources)
      build.sources.push_back(sources_ / "tracer/in_process/op_records" / source);
    // Linked, so that the process's own libraries are found: nothing else makes them visible.
    for (const char* const torch_library : {"libc10.so", "libtorch_cpu.so"})
      build.link.push_back((torch_ / "lib" / torch_library).string());
    return build;
  }

  std::filesystem::path torch_;
  std::filesystem::path sources_;
  std::filesystem::path compiler_;
  int abi_ = 1;
};

}  // namespace

OpAgent find_or_build_op_agent(const std::filesystem::path& torch_folder,
                               const std::function<void(std::string_view)>& progress) {
  return Builder(torch_folder).find_or_build(progress);
}

std::vector<std::string> recorded_ops(const std::vector<std::string>& op_records) {
  std::set<std::string> ops;
  for (const std::string& record : op_records) {
    const auto json = read_json(record);
    if (!json.is_object()) continue;
    const auto op = json.find("op");
    const auto schema = json.find("schema");
    if (op != json.end() && op->is_string() && schema != json.end() && schema->is_string())
      ops.insert(op->get<std::string>());
  }
  return {ops.begin(), ops.end()};
}

}  // namespace optrace

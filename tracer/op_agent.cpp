#include "tracer/op_agent.h"

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
#include "platform/mapped_file.h"
#include "platform/output_file.h"
#include "tracer/built_for_torch.h"

namespace optrace {
namespace {

constexpr std::string_view kLacks =
    "The trace lacks op records: arguments, results, and why the dispatcher chose a kernel.";
// Newer torch needs C++20; a compiler that has no such thing may still build for an older one.
constexpr std::array kStandards = {"-std=c++20", "-std=c++17"};

/// Everything but where torch, the sources and the result lie. No -march: a cache may be shared by
/// machines of different kinds.
const std::vector<std::string>& fixed_arguments() {
  static const std::vector<std::string> arguments{
      "-O2",      "-fPIC",           "-shared",    "-fvisibility=hidden",
      "-DNDEBUG", "-Wl,-z,nodelete", "-Wl,-z,now", "-Wl,--no-as-needed"};
  return arguments;
}

/// The value of _GLIBCXX_USE_CXX11_ABI that torch was built with, told by how libc10's own
/// functions spell std::string; nothing if that is no torch.
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
    const auto version = content_of(torch_ / "version.py");
    const auto abi = string_abi(torch_);
    std::error_code error;
    if (!version || !abi ||
        !std::filesystem::exists(torch_ / "include" / "ATen" / "record_function.h", error)) {
      return without(
          fmt::format("{} has no C++ headers, or they are another version's: install "
                      "torch as a release wheel.",
                      torch_.string()));
    }
    abi_ = *abi;
    const auto compiler = find_compiler();
    if (!compiler) return without(std::string(kNoCompiler));
    compiler_ = *compiler;
    const std::string name = fmt::format("liboptrace_ops-{}.so", key(*version));
    const std::filesystem::path cache = build_cache("op-agents");
    if (!cache.empty() && std::filesystem::exists(cache / name, error))
      return {.library = cache / name, .missing = {}, .folder = {}};
    progress("building the op-record agent for this torch, once");
    return build(cache, name);
  }

 private:
  static OpAgent without(const std::string& why) {
    return {.library = {}, .missing = fmt::format("{} {}", kLacks, why), .folder = {}};
  }

  std::filesystem::path main_source() const {
    return sources_ / "tracer" / "op_records" / "op_records.cpp";
  }

  std::string key(const std::string& torch_version) const {
    BuildKey key;
    key.add(torch_version);
    key.add(abi_ == 0 ? "0" : "1");
    key.add(identity_of(compiler_));
    for (const std::string& argument : fixed_arguments()) key.add(argument);
    key.add_files_below(sources_);
    return key.hex();
  }

  OpAgent build(const std::filesystem::path& cache, const std::string& name) const {
    const auto folder = std::make_shared<const PrivateFolder>();
    const std::filesystem::path library = folder->path() / name;
    std::optional<BuildFailure> failure;
    for (const char* const standard : kStandards) {
      failure = run_build_steps({compile_step(standard, library)}, 1, folder->path());
      if (!failure) break;
    }
    if (failure) {
      return without(
          fmt::format("Building what records them with {} failed ({}). Another compiler "
                      "can be named in $CXX.",
                      compiler_.string(), failure->said));
    }
    if (!cache.empty()) {
      try {
        OutputFile kept(cache / name);
        kept.write(content_of(library).value_or(""));
        kept.commit();
        return {.library = cache / name, .missing = {}, .folder = {}};
      } catch (const Error&) {
        // A full disk costs the same time again in the next run, nothing else.
      }
    }
    return {.library = library, .missing = {}, .folder = folder};
  }

  BuildStep compile_step(const std::string& standard, const std::filesystem::path& library) const {
    BuildStep step{compiler_.string(), standard};
    step.insert(step.end(), fixed_arguments().begin(), fixed_arguments().end());
    const std::filesystem::path include = torch_ / "include";
    for (const std::string& argument :
         {fmt::format("-D_GLIBCXX_USE_CXX11_ABI={}", abi_), std::string("-isystem"),
          include.string(), std::string("-I"), sources_.string(), std::string("-o"),
          library.string(), main_source().string(),
          // Named so that the process's own are found: nothing else makes them visible.
          (torch_ / "lib" / "libc10.so").string(), (torch_ / "lib" / "libtorch_cpu.so").string()})
      step.push_back(argument);
    return step;
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
    const auto json = nlohmann::json::parse(record, nullptr, false);
    if (!json.is_object()) continue;
    const auto op = json.find("op");
    const auto schema = json.find("schema");
    if (op != json.end() && op->is_string() && schema != json.end() && schema->is_string())
      ops.insert(op->get<std::string>());
  }
  return {ops.begin(), ops.end()};
}

}  // namespace optrace

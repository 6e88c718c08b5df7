#include "tracer/op_agent.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "platform/child_process.h"
#include "platform/descriptor.h"
#include "platform/error.h"
#include "platform/installation.h"
#include "platform/interrupt.h"
#include "platform/mapped_file.h"
#include "platform/output_file.h"

namespace optrace {
namespace {

constexpr std::string_view kLacks =
    "The trace lacks op records: arguments, results, and why the dispatcher chose a kernel.";
constexpr std::chrono::minutes kPatience{5};
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

class Hash {
 public:
  // Each part with its size, so that no two lists of parts look the same.
  void add(std::string_view part) {
    sum_ += fmt::format("{}:", part.size());
    sum_ += part;
  }
  std::string hex() const {
    const XXH128_hash_t hash = XXH3_128bits(sum_.data(), sum_.size());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  std::string sum_;
};

std::optional<std::string> content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string content{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) return std::nullopt;
  return content;
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

/// Where a program of this name is, as a shell would find it.
std::optional<std::filesystem::path> in_path(const std::string& name) {
  const auto runs = [](const std::filesystem::path& path) {
    std::error_code error;
    return std::filesystem::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos)
    return runs(name) ? std::optional<std::filesystem::path>(name) : std::nullopt;
  const char* const variable = std::getenv("PATH");
  std::string_view rest = variable == nullptr ? "" : variable;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const std::filesystem::path folder = rest.substr(0, end);
    if (folder.is_absolute() && runs(folder / name)) return folder / name;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return std::nullopt;
}

std::optional<std::filesystem::path> find_compiler() {
  const char* const variable = std::getenv("CXX");
  for (const std::string name : {variable == nullptr ? "" : variable, "g++", "c++", "clang++"})
    if (!name.empty())
      if (auto path = in_path(name)) return path;
  return std::nullopt;
}

/// Changes when another compiler is installed in its place.
std::string identity_of(const std::filesystem::path& compiler) {
  std::error_code error;
  const auto real = std::filesystem::canonical(compiler, error);
  struct stat status{};
  if (::stat(compiler.c_str(), &status) != 0) return compiler.string();
  return fmt::format("{} {} {}", error ? compiler.string() : real.string(), status.st_size,
                     status.st_mtim.tv_sec);
}

/// The first line that says what is wrong, of what a compiler said.
std::string first_error(const std::string& said) {
  constexpr std::size_t kLongest = 300;
  std::size_t at = said.find("error: ");
  if (at == std::string::npos) at = 0;
  const std::string line = said.substr(at, std::min(said.find('\n', at), said.size()) - at);
  return line.substr(0, kLongest);
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
    if (!compiler) {
      return without(
          "It takes a C++ compiler, once, and there is no g++, c++ or clang++ in PATH: install one "
          "(Debian and Ubuntu: apt install g++; Fedora: dnf install gcc-c++) and trace again.");
    }
    compiler_ = *compiler;
    const std::string name = fmt::format("liboptrace_ops-{}.so", key(*version));
    const std::filesystem::path cache = cache_subfolder();
    if (!cache.empty() && std::filesystem::exists(cache / name, error))
      return {.library = cache / name, .missing = {}, .folder = {}};
    progress("building the op-record agent for this torch, once");
    return build(cache, name);
  }

 private:
  static OpAgent without(const std::string& why) {
    return {.library = {}, .missing = fmt::format("{} {}", kLacks, why), .folder = {}};
  }

  static std::filesystem::path cache_subfolder() {
    std::filesystem::path folder = cache_folder();
    if (folder.empty()) return {};
    folder /= "op-agents";
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return {};
    return folder;
  }

  std::filesystem::path main_source() const {
    return sources_ / "tracer" / "op_records" / "op_records.cpp";
  }

  std::string key(const std::string& torch_version) const {
    Hash hash;
    hash.add(torch_version);
    hash.add(abi_ == 0 ? "0" : "1");
    hash.add(identity_of(compiler_));
    for (const std::string& argument : fixed_arguments()) hash.add(argument);
    std::vector<std::filesystem::path> files;
    for (const auto& file : std::filesystem::recursive_directory_iterator(
             sources_, std::filesystem::directory_options::follow_directory_symlink))
      if (file.is_regular_file()) files.push_back(file.path());
    std::sort(files.begin(), files.end());
    for (const auto& file : files) {
      hash.add(file.filename().string());
      hash.add(content_of(file).value_or(""));
    }
    return hash.hex();
  }

  OpAgent build(const std::filesystem::path& cache, const std::string& name) const {
    const auto folder = std::make_shared<const PrivateFolder>();
    const std::filesystem::path library = folder->path() / name;
    std::string said;
    bool built = false;
    for (const char* const standard : kStandards) {
      said.clear();
      built = compile(standard, library, folder->path(), said);
      if (built) break;
    }
    if (!built) {
      return without(
          fmt::format("Building what records them with {} failed ({}). Another compiler "
                      "can be named in $CXX.",
                      compiler_.string(), first_error(said)));
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

  bool compile(const std::string& standard, const std::filesystem::path& library,
               const std::filesystem::path& folder, std::string& said) const {
    const std::filesystem::path output_file = folder / "said";
    const Descriptor output(
        ::open(output_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (!output) {
      said = describe_errno(errno);
      return false;
    }
    ChildProcess::Options options;
    options.arguments = {compiler_.string(), standard};
    options.arguments.insert(options.arguments.end(), fixed_arguments().begin(),
                             fixed_arguments().end());
    const std::filesystem::path include = torch_ / "include";
    for (const std::string& argument :
         {fmt::format("-D_GLIBCXX_USE_CXX11_ABI={}", abi_), std::string("-isystem"),
          include.string(), std::string("-I"), sources_.string(), std::string("-o"),
          library.string(), main_source().string(),
          // Named so that the process's own are found: nothing else makes them visible.
          (torch_ / "lib" / "libc10.so").string(), (torch_ / "lib" / "libtorch_cpu.so").string()})
      options.arguments.push_back(argument);
    options.environment = {{"LC_ALL", "C"}, {"TMPDIR", folder.string()}};
    options.descriptors = {{output.get(), STDOUT_FILENO}, {output.get(), STDERR_FILENO}};
    options.working_folder = folder.string();
    try {
      ChildProcess child(options);
      const auto end = std::chrono::steady_clock::now() + kPatience;
      std::optional<int> status;
      while (!status && std::chrono::steady_clock::now() < end) {
        status = child.wait_for(std::chrono::milliseconds(100));
        InterruptGuard::throw_if_interrupted();
      }
      said = status ? content_of(output_file).value_or("") : "it did not end within minutes";
      return status == 0;
    } catch (const Error& error) {
      if (error.status() == ExitStatus::interrupted) throw;
      said = error.what();
      return false;
    }
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

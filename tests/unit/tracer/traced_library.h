#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include <catch2/catch.hpp>

#include "platform/elf/module_symbols.h"
#include "platform/files/private_folder.h"
#include "tests/unit/small_library.h"
#include "tracer/probes/probe_plan.h"

namespace optrace::test {

// Two functions that are selected by name, and three callers that are not.
inline constexpr std::string_view kRelu = R"(
namespace at::native { __attribute__((noinline)) int kernel(int n) { asm(""); return n + 1; } }
namespace at::_ops {
struct relu { static int call(int n); };
__attribute__((noinline)) int relu::call(int n) { return at::native::kernel(n * 2); }
}
__attribute__((noinline)) int plumbing(int n) { return at::_ops::relu::call(n) * 5; }
static __attribute__((noinline)) int more_plumbing(int n) { return plumbing(n) + 3; }
int start(int n) { return more_plumbing(n) - 1; }
)";

/// Where tests load the library.
inline constexpr std::uint64_t kBias = 0x7f0000000000;

/// A library, its functions by symbol, and a cache of its own.
struct TracedLibrary {
  explicit TracedLibrary(std::string_view source = kRelu) {
    ::setenv("OPTRACE_CACHE_DIR", (folder.path() / "cache").c_str(), 1);
    library = build_library(folder.path(), "relu.cpp", source, {"-fno-plt"});
    module.emplace(library);
    for (std::size_t i = 0; i < module->function_count(); ++i) {
      const NativeFunction function = module->function(i);
      functions[std::string(function.symbol)] = function;
    }
  }
  ~TracedLibrary() { ::unsetenv("OPTRACE_CACHE_DIR"); }
  TracedLibrary(const TracedLibrary&) = delete;
  TracedLibrary& operator=(const TracedLibrary&) = delete;

  /// Returns a run-time return address in a function.
  std::uint64_t inside(const std::string& symbol) const {
    return kBias + functions.at(symbol).address + 6;
  }

  /// Returns the id of a function's probe.
  static std::uint32_t id(const ProbePlan& plan, std::uint64_t address, std::uint32_t first) {
    for (std::uint32_t i = 0; i < plan.probes().size(); ++i) {
      if (plan.probes()[i].address == address) return first + i;
    }
    FAIL("no probe");
    return 0;
  }

  std::filesystem::path scratch(const char* name) const {
    std::filesystem::create_directory(folder.path() / name);
    return folder.path() / name;
  }

  PrivateFolder folder;
  std::filesystem::path library;
  std::optional<ModuleSymbols> module;
  std::map<std::string, NativeFunction> functions;
};

/// Waits until a new file's results can be cached. Two changes in quick succession may leave the
/// same timestamps, so nothing is cached for a file that changed in the last two seconds.
inline void wait_until_settled() {
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
}

}  // namespace optrace::test

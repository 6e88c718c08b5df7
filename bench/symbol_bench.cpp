// Measures the cost of planning probes and of finding the names of addresses in the command.
//
//   symbol_bench MODULE...
//
// Each figure is measured in a separate process. The peer for the names is binutils' addr2line with
// the same addresses.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/elf/module_symbols.h"
#include "platform/files/private_folder.h"
#include "tracer/probes/probe_session.h"

namespace {

using Clock = std::chrono::steady_clock;
using Paths = std::vector<std::filesystem::path>;

constexpr std::size_t kNames = 200;  // In each module; `conv2d --backward --all` has 465 in all.

double seconds_since(Clock::time_point before) {
  return std::chrono::duration<double>(Clock::now() - before).count();
}

// Returns a value of /proc/self/status in megabytes.
double memory(const char* key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (double kilobytes = 0; word == key && status >> kilobytes) {
      return kilobytes / 1024;
    }
  }
  throw std::runtime_error("no such value in /proc/self/status");
}

template <typename Measured>
void in_process_of_its_own(Measured measured) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    measured();
    std::fflush(stdout);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0) {
    throw std::runtime_error("a measured process failed");
  }
}

void measure_plans(const Paths& modules, const char* when) {
  const optrace::PrivateFolder scratch;
  const auto before = Clock::now();
  optrace::ProbeSession session(scratch.path());
  const std::size_t plans = session.initial_plans(modules).size();
  std::printf("planning all probes, %-20s %6.2f s  (%zu plans)\n", when, seconds_since(before),
              plans);
}

std::vector<std::uint64_t> some_addresses(const std::filesystem::path& module) {
  const optrace::ModuleSymbols symbols(module);
  std::mt19937 random(42);
  std::vector<std::uint64_t> addresses;
  while (symbols.function_count() > 0 && addresses.size() < kNames) {
    addresses.push_back(symbols.function(random() % symbols.function_count()).address);
  }
  return addresses;
}

void measure_names(const Paths& modules, const std::vector<std::vector<std::uint64_t>>& addresses) {
  const double memory_before = memory("VmRSS:");
  const auto before = Clock::now();
  std::size_t named = 0;
  std::vector<optrace::ModuleSymbols> open;
  open.reserve(modules.size());
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const auto& symbols = open.emplace_back(modules[i]);
    for (const std::uint64_t address : addresses[i]) {
      named += symbols.find(address) ? 1U : 0U;
    }
  }
  const double took = seconds_since(before);
  std::printf(
      "names of %zu addresses                  %6.2f s  (%.0f MB at most, the mapped files' "
      "pages included)\n",
      named, took, memory("VmHWM:") - memory_before);
}

void measure_addr2line(const Paths& modules,
                       const std::vector<std::vector<std::uint64_t>>& addresses) {
  const auto before = Clock::now();
  for (std::size_t i = 0; i < modules.size(); ++i) {
    std::vector<std::string> words = {"addr2line", "-f", "-e", modules[i].string()};
    for (const std::uint64_t address : addresses[i]) {
      words.push_back(fmt::format("{:#x}", address));
    }
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string& word : words) {
      arguments.push_back(word.data());
    }
    arguments.push_back(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      if (std::freopen("/dev/null", "w", stdout) != nullptr) {
        ::execvp("addr2line", arguments.data());
      }
      ::_exit(1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (status != 0) {
      throw std::runtime_error("addr2line failed");
    }
  }
  const double took = seconds_since(before);
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  std::printf("peer: addr2line, the same              %6.2f s  (%.0f MB)\n", took,
              static_cast<double>(usage.ru_maxrss) / 1024);
}

}  // namespace

int main(int count, char** arguments) try {
  const Paths modules(arguments + 1, arguments + count);
  if (modules.empty()) {
    std::fputs("usage: symbol_bench MODULE...\n", stderr);
    return 2;
  }
  const optrace::PrivateFolder cache;
  ::setenv("XDG_CACHE_HOME", cache.path().c_str(), 1);
  in_process_of_its_own([&] { measure_plans(modules, "nothing cached"); });
  in_process_of_its_own([&] { measure_plans(modules, "from the cache"); });
  std::vector<std::vector<std::uint64_t>> addresses;
  for (const auto& module : modules) {
    addresses.push_back(some_addresses(module));
  }
  in_process_of_its_own([&] { measure_names(modules, addresses); });
  in_process_of_its_own([&] { measure_addr2line(modules, addresses); });
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "symbol_bench: %s\n", error.what());
  return 3;
}

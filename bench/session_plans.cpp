// session_plans SCRATCH MODULE...: makes (or takes from the cache) the plans that optrace would
// place for these modules, and prints their paths, one per line. For benchmarks that place them
// themselves, in the process that they measure.

#include <cstdio>
#include <exception>
#include <filesystem>
#include <vector>

#include "tracer/probes/probe_session.h"

int main(int count, char** arguments) try {
  if (count < 3) {
    std::fputs("usage: session_plans SCRATCH MODULE...\n", stderr);
    return 2;
  }
  optrace::ProbeSession session(arguments[1]);
  const std::vector<std::filesystem::path> modules(arguments + 2, arguments + count);
  for (const std::filesystem::path& plan : session.initial_plans(modules)) {
    std::puts(plan.c_str());
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "session_plans: %s\n", error.what());
  return 3;
}

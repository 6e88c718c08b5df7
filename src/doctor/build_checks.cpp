#include <fstream>

#include <fmt/core.h>

#include "gpu/build/activity_agent.h"
#include "gpu/build/dry_run.h"
#include "gpu/build/emulated_device_build.h"
#include "src/doctor/doctor_checks.h"
#include "target/build/built_for_torch.h"
#include "target/build/op_agent.h"

namespace optrace {
namespace {

constexpr std::string_view kInstallCompiler =
    "Install one (Debian and Ubuntu: apt install g++; Fedora: dnf install gcc-c++), or name one in "
    "$CXX.";

/// Returns the first line of a file of the driver; empty without one.
std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  return line;
}

/// Adds the outcome of a build to a check.
void add_outcome(const BuiltLibraries& built, std::string_view found, DoctorCheck& check) {
  check.tested = true;
  if (built.libraries.empty()) {
    check.state = CheckState::limited;
    check.found = built.missing;
    return;
  }
  check.found = found;
  if (const std::string warning = not_kept_warning(built); !warning.empty()) {
    check.state = CheckState::limited;
    check.found += ", but it can't be cached";
    check.remedy = warning;
  }
}

}  // namespace

DoctorCheck check_compiler() {
  DoctorCheck check{.id = "compiler"};
  if (const auto compiler = find_compiler()) {
    check.found = compiler->string();
    check.facts = {{"path", compiler->string()}};
    return check;
  }
  check.state = CheckState::limited;
  check.found =
      "there is no C++ compiler ($CXX, g++, c++ or clang++), which op records, dry runs and "
      "records of GPUs need once where nothing prebuilt fits torch";
  check.remedy = kInstallCompiler;
  return check;
}

DoctorCheck test_op_records(const InstalledTorch& torch, const DoctorProgress& progress) {
  DoctorCheck check{.id = "op records"};
  const BuiltLibraries agent = find_or_build_op_agent(torch.folder, progress);
  const std::string how = agent.prebuilt.empty()
                              ? fmt::format("compiled for this torch. {}",
                                            why_not_prebuilt(op_agent_description(torch.folder)))
                              : fmt::format("prebuilt, that of {}", agent.prebuilt);
  add_outcome(
      agent,
      fmt::format("the library that records arguments, results and dispatch keys is {}", how),
      check);
  check.facts = {{"agent", agent.libraries.empty()  ? "none"
                           : agent.prebuilt.empty() ? "compiled"
                                                    : "prebuilt"}};
  return check;
}

DoctorCheck check_dry_run(const InstalledTorch& torch) {
  DoctorCheck check{.id = "dry run"};
  const BuildDescription device = emulated_device_description({torch.folder});
  const std::string why_not = why_not_prebuilt(device);
  if (device.misfit && why_not.empty()) {
    check.found = "the libraries of an emulated GPU are prebuilt";
    return check;
  }
  const std::string obstacle = device.obstacle();
  if (obstacle.empty()) {
    check.found =
        fmt::format("the headers of CUDA's libraries, for an emulated GPU, are there. {}", why_not);
    return check;
  }
  check.state = CheckState::limited;
  check.found = "CUDA can't be emulated for this torch";
  check.remedy = obstacle;
  return check;
}

DoctorCheck check_gpu(const InstalledTorch& torch, const DoctorProgress& progress) {
  DoctorCheck check{.id = "gpu"};
  const std::string driver = driver_version();
  check.facts = {{"device", has_gpu()}, {"driver", driver}};
  if (!has_gpu()) {
    check.found = "none; `--device cuda` is a dry run";
    return check;
  }
  add_outcome(find_or_build_activity_agent(torch.folder, progress),
              fmt::format("{}; the library that records its work is built",
                          driver.empty() ? "an NVIDIA GPU" : driver),
              check);
  return check;
}

}  // namespace optrace

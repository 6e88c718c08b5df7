#include "gpu/emulated/device/device.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>

#include "gpu/emulated/device/device_fork.h"

namespace optrace::emulated {
namespace {

GpuModel chosen_gpu_model() {
  const char* const setting = std::getenv("OPTRACE_DRY_RUN");
  const GpuModelChoice choice = choose_gpu_model(setting == nullptr ? "" : setting);
  if (choice.wrong.empty()) return choice.gpu_model;
  // The command rejects invalid values; this process was started in another way.
  std::fprintf(stderr, "optrace: OPTRACE_DRY_RUN: %s: emulating %s\n", choice.wrong.c_str(),
               kUsualModel);
  return choose_gpu_model(kUsualModel).gpu_model;
}

int chosen_count() {
  const char* const setting = std::getenv("OPTRACE_DRY_RUN_DEVICES");
  if (setting == nullptr) return 1;
  char* end = nullptr;
  const long count = std::strtol(setting, &end, 10);
  return end != setting && *end == '\0' && count >= 1 && count <= kMaxDevices
             ? static_cast<int>(count)
             : 1;
}

std::mutex unimplemented_mutex;
const HeldAcrossFork<unimplemented_mutex> unimplemented_held;
std::atomic<std::uint64_t> unimplemented_count{0};

/// Returns true at the first call for `function`.
bool first_of(const char* function) {
  // Never destroyed, because CUDA may be called until the process ends.
  static auto* const reported = new std::set<std::string>;
  const std::lock_guard lock(unimplemented_mutex);
  return reported->insert(function).second;
}

thread_local int the_current_device = 0;

/// Converts "11.8" to 11080. Returns 0 if the text is not a version.
int version_number(const char* text) {
  int major = 0;
  int minor = 0;
  int end = 0;
  constexpr int kMajor = 1000;
  constexpr int kMinor = 10;
  if (std::sscanf(text, "%2d.%2d%n", &major, &minor, &end) != 2 || text[end] != '\0') return 0;
  return major < 0 || minor < 0 ? 0 : kMajor * major + kMinor * minor;
}

}  // namespace

int driver_version(int usual) {
  static const char* const setting = std::getenv("OPTRACE_DRY_RUN_DRIVER");
  const int version = setting == nullptr ? 0 : version_number(setting);
  return version > 0 && version < usual ? version : usual;
}

const GpuModel& gpu_model() {
  static const GpuModel chosen = chosen_gpu_model();
  return chosen;
}

int device_count() {
  static const int count = chosen_count();
  return count;
}

void unimplemented(const char* function) {
  ++unimplemented_count;
  Call call(function, "unimplemented");
  call.record();
  if (!first_of(function)) return;
  std::fprintf(stderr, "optrace: the emulated CUDA device does not implement %s: the call fails\n",
               function);
}

int current_device() {
  return the_current_device;
}
void* context_of(int device) {
  static int contexts[kMaxDevices];
  return &contexts[device];
}
void set_current_device(int device) {
  the_current_device = device;
}

}  // namespace optrace::emulated

extern "C" std::uint64_t optrace_device_unimplemented(void) {
  return optrace::emulated::unimplemented_count;
}

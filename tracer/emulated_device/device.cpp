#include "tracer/emulated_device/device.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "tracer/emulated_device/device_fork.h"

namespace optrace::emulated {
namespace {

constexpr std::uint64_t kMebibyte = 1024ULL * 1024;
constexpr int kMaxDevices = 64;

// One real product for each architecture. `memory` is what CUDA hands out of it, a little less than
// the data sheet's. Limits of a multiprocessor and a block: "Technical Specifications per Compute
// Capability" in the CUDA C++ Programming Guide.
constexpr std::array<Part, 7> kParts{{
    {"sm_75", "Tesla T4", 7, 5, 40, 15102 * kMebibyte, 4 << 20, 256, 5001000, 1590000,  //
     1024, 16, 65536, 64 << 10, 48 << 10, 64 << 10, 0},
    {"sm_80", "NVIDIA A100-SXM4-80GB", 8, 0, 108, 81154 * kMebibyte, 40 << 20, 5120, 1593000,
     1410000,  //
     2048, 32, 65536, 164 << 10, 48 << 10, 163 << 10, 1 << 10},
    {"sm_86", "NVIDIA A10", 8, 6, 72, 22516 * kMebibyte, 6 << 20, 384, 6251000, 1695000,  //
     1536, 16, 65536, 100 << 10, 48 << 10, 99 << 10, 1 << 10},
    {"sm_89", "NVIDIA L4", 8, 9, 58, 22478 * kMebibyte, 48 << 20, 192, 6251000, 2040000,  //
     1536, 24, 65536, 100 << 10, 48 << 10, 99 << 10, 1 << 10},
    {"sm_90", "NVIDIA H100 80GB HBM3", 9, 0, 132, 81079 * kMebibyte, 50 << 20, 5120, 2619000,
     1980000,  //
     2048, 32, 65536, 228 << 10, 48 << 10, 227 << 10, 1 << 10},
    {"sm_100", "NVIDIA B200", 10, 0, 148, 182642 * kMebibyte, 126 << 20, 8192, 3996000,
     1965000,  //
     2048, 32, 65536, 228 << 10, 48 << 10, 227 << 10, 1 << 10},
    {"sm_120", "NVIDIA GeForce RTX 5090", 12, 0, 170, 32106 * kMebibyte, 96 << 20, 512, 14001000,
     2407000,  //
     1536, 24, 65536, 100 << 10, 48 << 10, 99 << 10, 1 << 10},
}};
constexpr const char* kUsualPart = "sm_90";

const Part* find_part(const char* arch) {
  for (const Part& part : kParts)
    if (std::strcmp(part.arch, arch) == 0) return &part;
  return nullptr;
}

const Part& chosen_part() {
  const char* const wanted = std::getenv("OPTRACE_DRY_RUN");
  const Part* const found = wanted == nullptr ? nullptr : find_part(wanted);
  if (found != nullptr) return *found;
  // The command refuses parts that it doesn't know; this is a child that was started otherwise.
  std::fprintf(stderr, "optrace: OPTRACE_DRY_RUN=%s is no part that is known: emulating %s\n",
               wanted == nullptr ? "" : wanted, kUsualPart);
  return *find_part(kUsualPart);
}

int chosen_count() {
  const char* const wanted = std::getenv("OPTRACE_DRY_RUN_DEVICES");
  if (wanted == nullptr) return 1;
  char* end = nullptr;
  const long count = std::strtol(wanted, &end, 10);
  return end != wanted && *end == '\0' && count >= 1 && count <= kMaxDevices
             ? static_cast<int>(count)
             : 1;
}

std::mutex unthought_mutex;
const HeldAcrossFork<unthought_mutex> unthought_held;
std::atomic<std::uint64_t> unthought_count{0};

/// Whether `function` is told of for the first time.
bool first_of(const char* function) {
  // Never destroyed: CUDA is called until a process's very end.
  static auto* const told = new std::set<std::string>;
  const std::lock_guard lock(unthought_mutex);
  return told->insert(function).second;
}

thread_local int the_current_device = 0;

}  // namespace

const Part& part() {
  static const Part& chosen = chosen_part();
  return chosen;
}

int device_count() {
  static const int count = chosen_count();
  return count;
}

void unthought(const char* function) {
  ++unthought_count;
  Call call(function, "unthought");
  call.record();
  if (!first_of(function)) return;
  std::fprintf(stderr, "optrace: the emulated CUDA device does not know %s: the call fails\n",
               function);
}

int current_device() {
  return the_current_device;
}
void set_current_device(int device) {
  the_current_device = device;
}

}  // namespace optrace::emulated

extern "C" std::uint64_t optrace_device_unthought(void) {
  return optrace::emulated::unthought_count;
}

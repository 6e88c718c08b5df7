#include "target/agent/process/library_loads.h"

#include <atomic>
#include <cstring>

#include <link.h>

#include "target/agent/process/import_redirect.h"
#include "target/agent/process/modules.h"
#include "target/agent/process/patching.h"

namespace optrace::agent {
namespace {

using LookUp = void* (*)(void*, const char*);

void* original = nullptr;  // dlsym.
void (*loaded)() = nullptr;
std::atomic<unsigned long long> known = 0;  // Number of libraries that were ever loaded.

unsigned long long count_loads() {
  unsigned long long count = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        *static_cast<unsigned long long*>(result) = info->dlpi_adds;
        return 1;
      },
      &count);
  return count;
}

// Takes the place of dlsym in PyTorch's import table. A redirected dlopen would do more harm: it
// searches the paths of the library that calls it. dlsym, which may depend on its caller too, is
// reached by a jump.
void* look_up(void* library, const char* name) {
  if (const unsigned long long count = count_loads(); count != known) {
    loaded();
    known = count;
  }
  return reinterpret_cast<LookUp>(original)(library, name);
}

const optrace_agent_redirection kLookUp = {"dlsym", reinterpret_cast<void*>(look_up), &original};

// Returns an address in the library that contains at::DynamicLibrary; 0 if it is not loaded.
std::uint64_t find_torch() {
  std::uint64_t inside = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        const char* const slash =
            info->dlpi_name == nullptr ? nullptr : std::strrchr(info->dlpi_name, '/');
        if (slash == nullptr || std::strcmp(slash, "/libtorch_cpu.so") != 0) return 0;
        *static_cast<std::uint64_t*>(result) = describe_module(*info).first;
        return 1;
      },
      &inside);
  return inside;
}

}  // namespace

void follow_library_loads(void (*follow)()) {
  loaded = follow;
  known = count_loads();
  if (const std::uint64_t torch = find_torch(); torch != 0) {
    const Patching guard;
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    redirect_imports(reinterpret_cast<const void*>(torch), &kLookUp, 1);
  }
}

void end_following_library_loads() {
  const Patching guard;
  restore_imports(&kLookUp, 1);
}

}  // namespace optrace::agent

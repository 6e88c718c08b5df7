#include <atomic>
#include <string>
#include <vector>

#include <link.h>

#include "gpu/emulated/device/device.h"
#include "gpu/recorder/forwards.h"
#include "target/recorder/agent_functions.h"

namespace optrace::emulated {

// Does nothing: device graphs are real here, and the library is not called when a captured graph
// runs.
void capture_library_call(const std::string&) {}

}  // namespace optrace::emulated

namespace optrace::cuda_calls {
namespace {

/// Never destroyed, because the agent restores the redirections when the process ends.
std::vector<optrace_agent_redirection>& redirections() {
  static auto* const all = new std::vector<optrace_agent_redirection>;
  return *all;
}

/// optrace_agent_redirect or optrace_agent_redirect_loaded.
using Redirect = decltype(optrace_recorder_functions::redirect);

/// Name of a module and an address inside it.
struct Module {
  std::string name;
  const void* inside;
};

int add_module(dl_phdr_info* info, std::size_t, void* modules) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    static_cast<std::vector<Module>*>(modules)->push_back(
        {info->dlpi_name == nullptr ? "" : info->dlpi_name,
         // NOLINTNEXTLINE(performance-no-int-to-ptr)
         reinterpret_cast<const void*>(info->dlpi_addr + segment.p_vaddr)});
    break;
  }
  return 0;
}

/// Returns true for CUDA's own libraries. Their calls of each other are not recorded, only calls
/// from outside.
bool is_of_cuda(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  for (const char* const start : {"libcu", "libnv", "libnccl", "liboptrace_"})
    if (name.rfind(start, 0) == 0) return true;
  return false;
}

/// Returns the number of import table entries changed, or an error.
int redirect_in_all(Redirect redirect) {
  std::vector<Module> modules;
  ::dl_iterate_phdr(add_module, &modules);
  int changed = 0;
  for (const Module& module : modules) {
    if (is_of_cuda(module.name)) continue;
    const int entries = optrace_ops::when_free([&] {
      return redirect(module.inside, redirections().data(),
                      static_cast<std::uint32_t>(redirections().size()));
    });
    if (entries < 0) return entries;
    changed += entries;
  }
  return changed;
}

std::atomic<Redirect> redirect_loaded{nullptr};

// The constructor of at::DynamicLibrary, by which PyTorch loads libraries:
// DynamicLibrary(const char* name, const char* other_name, bool leaks).
void (*original_load)(void* library, const char* name, const char* other_name,
                      bool leaks) = nullptr;

void load(void* library, const char* name, const char* other_name, bool leaks) {
  original_load(library, name, other_name, leaks);
  try {
    redirect_in_all(redirect_loaded.load());
  } catch (...) {
    return;  // Out of memory: the calls from this library are not recorded.
  }
}

const optrace_agent_redirection kLoad =
    redirection("_ZN2at14DynamicLibraryC1EPKcS2_b", &load, &original_load);
[[maybe_unused]] const bool added_load = add({&kLoad, 1});

}  // namespace

bool add(Forwards forwards) {
  redirections().insert(redirections().end(), forwards.first, forwards.first + forwards.count);
  return true;
}

}  // namespace optrace::cuda_calls

extern "C" int optrace_cuda_calls_start(const optrace_recorder_functions* functions) {
  using namespace optrace::cuda_calls;
  if (const int refused = optrace_device_use(functions); refused != 0) return refused;
  redirect_loaded = functions->redirect_loaded;
  return redirect_in_all(functions->redirect);
}

#include "target/agent/recording/module_sections.h"

#include <climits>
#include <cstring>

#include <link.h>

#include "target/agent/process/modules.h"
#include "target/agent/process/system_calls.h"
#include "target/interface/generated_library.h"

namespace optrace::agent {
namespace {

using recording::SectionKind;

struct DescribedModule {
  recording::Module module{};
  char path[PATH_MAX];
};

void describe(const dl_phdr_info& info, DescribedModule& described) {
  const LoadedModule loaded = describe_module(info);
  recording::Module& module = described.module;
  module.bias = loaded.bias;
  module.first = loaded.first;
  module.last = loaded.last;
  if (loaded.build_id_size <= sizeof(module.build_id)) {
    module.build_id_size = loaded.build_id_size;
    std::memcpy(module.build_id, loaded.build_id, loaded.build_id_size);
  }
  module.path_size =
      static_cast<std::uint32_t>(module_path(loaded, described.path, sizeof(described.path)));
}

int put_module(dl_phdr_info* info, std::size_t, void* argument) {
  Region& region = *static_cast<Region*>(argument);
  DescribedModule described;
  describe(*info, described);
  const recording::Module& module = described.module;
  const SignalsBlocked guard;
  void* const section = begin_section(region, sizeof(module) + module.path_size);
  if (section != nullptr) {
    std::memcpy(section, &module, sizeof(module));
    std::memcpy(static_cast<char*>(section) + sizeof(module), described.path, module.path_size);
    complete_section(section, SectionKind::module);
  }
  return 0;
}

// The first `count` modules of the loader's list, which is in load order, have been written,
// provided that none was unloaded since.
struct ModulesPut {
  std::uint64_t count = 0;
  std::uint64_t unloaded = 0;
};
ModulesPut modules_put;

struct NewModules {
  Region* region;
  std::uint64_t count = 0;
  std::uint64_t unloaded = 0;
  bool any_of_torch = false;
};

// Returns true if a DT_NEEDED entry names one of PyTorch's libraries. The loader has converted the
// offsets of the dynamic section to addresses.
bool needs_torch(const dl_phdr_info& info) {
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    if (info.dlpi_phdr[i].p_type == PT_DYNAMIC) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      dynamic = reinterpret_cast<const ElfW(Dyn)*>(info.dlpi_addr + info.dlpi_phdr[i].p_vaddr);
    }
  }
  const char* names = nullptr;
  for (const ElfW(Dyn)* at = dynamic; at != nullptr && at->d_tag != DT_NULL; ++at)
    if (at->d_tag == DT_STRTAB && at->d_un.d_ptr > info.dlpi_addr)
      names = reinterpret_cast<const char*>(at->d_un.d_ptr);  // NOLINT(performance-no-int-to-ptr)
  for (const ElfW(Dyn)* at = dynamic; names != nullptr && at->d_tag != DT_NULL; ++at) {
    if (at->d_tag == DT_NEEDED && (std::strncmp(names + at->d_un.d_val, "libtorch", 8) == 0 ||
                                   std::strncmp(names + at->d_un.d_val, "libc10", 6) == 0)) {
      return true;
    }
  }
  return false;
}

int put_if_new(dl_phdr_info* info, std::size_t size, void* argument) {
  NewModules& search = *static_cast<NewModules*>(argument);
  search.unloaded = info->dlpi_subs;
  const bool is_new = search.count >= modules_put.count || search.unloaded != modules_put.unloaded;
  ++search.count;
  if (is_new) {
    put_module(info, size, search.region);
    search.any_of_torch = search.any_of_torch || needs_torch(*info) ||
                          (info->dlpi_name != nullptr && is_generated_library(info->dlpi_name));
  }
  return 0;
}

}  // namespace

void put_modules(Region& region) {
  modules_put = {};
  put_new_modules(region);
}

bool has_generated_library() {
  return dl_iterate_phdr(
             [](dl_phdr_info* info, std::size_t, void*) {
               return info->dlpi_name != nullptr && is_generated_library(info->dlpi_name) ? 1 : 0;
             },
             nullptr) != 0;
}

bool put_new_modules(Region& region) {
  const std::uint32_t met = __atomic_load_n(&region.header->modules_met, __ATOMIC_ACQUIRE);
  NewModules search{&region};
  dl_iterate_phdr(put_if_new, &search);
  __atomic_store_n(&region.header->modules_put, met, __ATOMIC_RELEASE);
  modules_put = {search.count, search.unloaded};
  return search.any_of_torch;
}

}  // namespace optrace::agent

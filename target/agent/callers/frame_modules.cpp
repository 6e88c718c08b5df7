#include "target/agent/callers/frame_modules.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include "target/agent/process/pages.h"

namespace optrace::agent {
namespace {

// A list is never freed, because a probe may be reading it. A new one is made only after modules
// were loaded or unloaded, and its memory is small.
constexpr std::uint32_t kMaxFrameModules = 4096;
constexpr std::uint32_t kMaxLists = 64;

struct Listing {
  PageArray<FrameModule> modules;
  std::uint32_t count = 0;
  unsigned long long added = 0, removed = 0;  // Counted by the dynamic linker.
};

// glibc's struct dl_find_object (dlfcn.h), declared here because older headers lack it.
struct FoundObject {
  unsigned long long flags;
  void* map_start;
  void* map_end;
  void* link_map;
  void* eh_frame;  // .eh_frame_hdr
  unsigned long long reserved[7];
};
using FindObject = int (*)(void* address, FoundObject* found);
FindObject find_object = nullptr;

Listing lists[kMaxLists];
std::uint32_t list_count = 0;

void add_module(const dl_phdr_info& info, Listing& listing) {
  FrameModule module{UINT64_MAX, 0, 0, 0, 0};
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    const std::uint64_t first = info.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD) {
      module.first = first < module.first ? first : module.first;
      const std::uint64_t last = first + segment.p_memsz;
      module.last = last > module.last ? last : module.last;
    } else if (segment.p_type == PT_GNU_EH_FRAME) {
      module.table = first;
      module.table_size = segment.p_memsz;
    }
  }
  if (module.table == 0 || module.table_size < 12 || module.table < module.first ||
      module.table_size > module.last - module.table) {
    return;
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  module.mark = *reinterpret_cast<const std::uint64_t*>(module.table);
  // Insert in address order; the dynamic linker lists modules in load order.
  std::uint32_t at = listing.count++;
  for (; at > 0 && listing.modules[at - 1].first > module.first; --at)
    listing.modules[at] = listing.modules[at - 1];
  listing.modules[at] = module;
}

int list_module(dl_phdr_info* info, std::size_t, void* argument) {
  Listing& listing = *static_cast<Listing*>(argument);
  listing.added = info->dlpi_adds;
  listing.removed = info->dlpi_subs;
  if (listing.count < listing.modules.count) add_module(*info, listing);
  return 0;
}

int read_changes(dl_phdr_info* info, std::size_t, void* argument) {
  Listing& now = *static_cast<Listing*>(argument);
  now.added = info->dlpi_adds;
  now.removed = info->dlpi_subs;
  return 1;
}

bool is_current(const Listing& listing) {
  Listing now;
  dl_iterate_phdr(read_changes, &now);
  return now.added == listing.added && now.removed == listing.removed;
}

}  // namespace

bool list_frame_modules() {
  if (list_count > 0 && is_current(lists[list_count - 1])) {
    frame_modules_are_current();
    return true;
  }
  if (list_count == kMaxLists)
    return true;  // Keep the last list: an address in no listed module ends the unwinding.
  Listing& listing = lists[list_count];
  if (!listing.modules.allocate(kMaxFrameModules)) return false;
  dl_iterate_phdr(list_module, &listing);
  ++list_count;
  use_frame_modules(listing.modules.data, listing.count);
  return true;
}

void prepare_module_lookup() {
  find_object = reinterpret_cast<FindObject>(dlsym(RTLD_DEFAULT, "_dl_find_object"));
}

bool look_up_frame_module(std::uint64_t address, FrameModule& module) {
  FoundObject found{};
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  if (find_object == nullptr || find_object(reinterpret_cast<void*>(address), &found) != 0)
    return false;
  module.first = reinterpret_cast<std::uint64_t>(found.map_start);
  module.last = reinterpret_cast<std::uint64_t>(found.map_end);
  module.table = reinterpret_cast<std::uint64_t>(found.eh_frame);
  if (module.table < module.first || module.table >= module.last) return false;
  // Upper bound, because the size of the section itself is not available.
  module.table_size = module.last - module.table;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  module.mark = *reinterpret_cast<const std::uint64_t*>(module.table);
  return true;
}

}  // namespace optrace::agent

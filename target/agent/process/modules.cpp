#include "target/agent/process/modules.h"

#include <climits>
#include <cstring>

#include <sys/mman.h>
#include <unistd.h>

namespace optrace::agent {
namespace {

bool is_mapped(const dl_phdr_info& info, std::uint64_t linked, std::uint64_t size) {
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_R) != 0 && linked >= segment.p_vaddr &&
        size <= segment.p_memsz && linked - segment.p_vaddr <= segment.p_memsz - size) {
      return true;
    }
  }
  return false;
}

void find_build_id(const dl_phdr_info& info, const ElfW(Phdr) & notes, LoadedModule& module) {
  if (!is_mapped(info, notes.p_vaddr, notes.p_memsz)) return;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const auto* at = reinterpret_cast<const std::uint8_t*>(info.dlpi_addr + notes.p_vaddr);
  const std::uint64_t alignment = notes.p_align == 8 ? 8 : 4;
  const auto padded = [alignment](std::uint64_t size) {
    return (size + alignment - 1) & ~(alignment - 1);
  };
  std::uint64_t left = notes.p_memsz;
  while (left >= sizeof(ElfW(Nhdr))) {
    const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(at);
    const std::uint64_t name = padded(note->n_namesz);
    const std::uint64_t whole = sizeof(*note) + name + padded(note->n_descsz);
    if (whole > left) return;
    if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
        std::memcmp(at + sizeof(*note), "GNU", 4) == 0) {
      module.build_id = at + sizeof(*note) + name;
      module.build_id_size = note->n_descsz;
      return;
    }
    at += whole;
    left -= whole;
  }
}

struct Search {
  const std::uint8_t* build_id;
  std::uint32_t build_id_size;
  const char* path;
  std::uint32_t path_size;
  LoadedModule* found;
  bool any;
};

int consider(dl_phdr_info* info, std::size_t, void* argument) {
  Search& search = *static_cast<Search*>(argument);
  const LoadedModule module = describe_module(*info);
  if (module.build_id_size != search.build_id_size ||
      (search.build_id_size > 0 &&
       std::memcmp(module.build_id, search.build_id, search.build_id_size) != 0)) {
    return 0;
  }
  char path[PATH_MAX];
  const std::size_t size = module_path(module, path, sizeof(path));
  const bool same_path =
      size == search.path_size && std::memcmp(path, search.path, search.path_size) == 0;
  if (same_path || (search.build_id_size > 0 && !search.any)) {
    *search.found = module;
    search.any = true;
  }
  return same_path ? 1 : 0;
}

}  // namespace

const LoadedModule::Text* LoadedModule::text_around(std::uint64_t address,
                                                    std::uint64_t size) const {
  for (int i = 0; i < text_count; ++i)
    if (address >= text[i].first && address < text[i].last && size <= text[i].last - address)
      return &text[i];
  return nullptr;
}

LoadedModule describe_module(const dl_phdr_info& info) {
  LoadedModule module;
  module.name = info.dlpi_name == nullptr ? "" : info.dlpi_name;
  module.bias = info.dlpi_addr;
  module.first = UINT64_MAX;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    if (segment.p_type == PT_LOAD) {
      const std::uint64_t first = info.dlpi_addr + segment.p_vaddr;
      const std::uint64_t last = first + segment.p_memsz;
      module.first = first < module.first ? first : module.first;
      module.last = last > module.last ? last : module.last;
      if ((segment.p_flags & PF_X) != 0 && module.text_count < LoadedModule::kMaxTextSegments) {
        const int protection = PROT_EXEC | ((segment.p_flags & PF_R) != 0 ? PROT_READ : 0) |
                               ((segment.p_flags & PF_W) != 0 ? PROT_WRITE : 0);
        module.text[module.text_count++] = {first, last, protection};
      }
    } else if (segment.p_type == PT_NOTE && module.build_id == nullptr) {
      find_build_id(info, segment, module);
    }
  }
  return module;
}

std::size_t module_path(const LoadedModule& module, char* path, std::size_t capacity) {
  if (module.name[0] == '\0') {
    const ssize_t size = readlink("/proc/self/exe", path, capacity - 1);
    path[size > 0 ? size : 0] = '\0';
    return size > 0 ? static_cast<std::size_t>(size) : 0;
  }
  const std::size_t size = strnlen(module.name, capacity - 1);
  std::memcpy(path, module.name, size);
  path[size] = '\0';
  return size;
}

bool find_module(const std::uint8_t* build_id, std::uint32_t build_id_size, const char* path,
                 std::uint32_t path_size, LoadedModule& found) {
  Search search{build_id, build_id_size, path, path_size, &found, false};
  dl_iterate_phdr(consider, &search);
  return search.any;
}

bool still_loaded(const LoadedModule& module) {
  struct Match {
    const LoadedModule* module;
    bool found;
  } searched{&module, false};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* argument) {
        Match& sought = *static_cast<Match*>(argument);
        const LoadedModule loaded = describe_module(*info);
        sought.found = loaded.bias == sought.module->bias && loaded.first == sought.module->first &&
                       loaded.last == sought.module->last &&
                       loaded.build_id == sought.module->build_id;
        return sought.found ? 1 : 0;
      },
      &searched);
  return searched.found;
}

}  // namespace optrace::agent

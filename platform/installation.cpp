#include "platform/installation.h"

#include <system_error>

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include "platform/error.h"

namespace optrace {
namespace {

std::filesystem::path find(const char* kind) {
  const std::filesystem::path beside = executable_folder();
  const std::filesystem::path above = beside.parent_path();
  // The programs in lib/optrace are two folders below the prefix.
  for (const std::filesystem::path& base : {beside, above, above.parent_path()}) {
    std::filesystem::path candidate = base / kind / "optrace";
    std::error_code ignored;
    if (std::filesystem::is_directory(candidate, ignored)) return candidate;
  }
  throw Error(ExitStatus::failed,
              fmt::format("optrace's own files are missing: no {}/optrace beside or above {}", kind,
                          beside.string()),
              "Rebuild or reinstall optrace; its command can't be moved alone.");
}

}  // namespace

std::filesystem::path executable_folder() {
  Dl_info info{};
  link_map* map = nullptr;
  const auto* const own = reinterpret_cast<const void*>(&executable_folder);
  const bool found = ::dladdr1(own, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0;
  // The program itself has no name in the loader's list.
  if (found && map != nullptr && *map->l_name != '\0')
    return std::filesystem::canonical(map->l_name).parent_path();
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

std::filesystem::path data_folder() {
  return find("share");
}

std::filesystem::path library_folder() {
  return find("lib");
}

}  // namespace optrace

#include "platform/files/installation.h"

#include <system_error>

#include <dlfcn.h>
#include <fmt/core.h>
#include <link.h>

#include "platform/error.h"

namespace optrace {
namespace {

std::filesystem::path find(const char* kind) {
  std::filesystem::path folder = installation_folder() / kind / "optrace";
  std::error_code ignored;
  if (std::filesystem::is_directory(folder, ignored)) return folder;
  throw Error(ExitStatus::failed,
              fmt::format("optrace's own files are missing: there is no {}", folder.string()),
              "Rebuild or reinstall optrace; its command can't be moved alone.");
}

}  // namespace

std::filesystem::path program_file() {
  return std::filesystem::read_symlink("/proc/self/exe");
}

std::filesystem::path installation_folder() {
  Dl_info info{};
  link_map* map = nullptr;
  const auto* const own = reinterpret_cast<const void*>(&installation_folder);
  const bool found = ::dladdr1(own, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0;
  // This code is in lib/optrace/liboptrace.so, or in a program, which has no name in the loader's
  // list. Links are not followed: what counts is beside the link.
  const bool in_library = found && map != nullptr && *map->l_name != '\0';
  const std::filesystem::path file =
      in_library ? std::filesystem::absolute(map->l_name).lexically_normal() : program_file();
  const std::filesystem::path folder = file.parent_path();
  return folder.parent_path().filename() / folder.filename() == "lib/optrace"
             ? folder.parent_path().parent_path()
             : folder;
}

std::filesystem::path data_folder() {
  return find("share");
}

std::filesystem::path library_folder() {
  return find("lib");
}

}  // namespace optrace

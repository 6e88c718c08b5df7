#include "platform/installation.h"

#include <system_error>

#include <fmt/format.h>

#include "platform/error.h"

namespace optrace {
namespace {

std::filesystem::path find(const char* kind) {
  const std::filesystem::path beside = executable_folder();
  for (const std::filesystem::path& base : {beside, beside.parent_path()}) {
    std::filesystem::path candidate = base / kind / "optrace";
    std::error_code ignored;
    if (std::filesystem::is_directory(candidate, ignored)) return candidate;
  }
  throw Error(ExitStatus::failed,
              fmt::format("optrace's own files are missing: no {}/optrace beside or above {}", kind,
                          beside.string()),
              "Build or install optrace again; its command can't be moved by itself.");
}

}  // namespace

std::filesystem::path executable_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

std::filesystem::path data_folder() {
  return find("share");
}

std::filesystem::path library_folder() {
  return find("lib");
}

}  // namespace optrace

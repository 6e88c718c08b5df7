#include "platform/process/find_program.h"

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include <unistd.h>

namespace optrace {

bool is_executable_file(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

std::optional<std::filesystem::path> find_program(std::string_view name, SearchedFolders folders) {
  const char* const variable = std::getenv("PATH");
  std::string_view rest = variable == nullptr ? "" : variable;
  while (!rest.empty()) {
    const std::filesystem::path folder = rest.substr(0, rest.find(':'));
    const bool is_searched =
        folders == SearchedFolders::all ? !folder.empty() : folder.is_absolute();
    if (is_searched && is_executable_file(folder / name)) return folder / name;
    rest.remove_prefix(std::min(folder.native().size() + 1, rest.size()));
  }
  return std::nullopt;
}

}  // namespace optrace

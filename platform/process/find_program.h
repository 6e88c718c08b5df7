#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace optrace {

/// Returns true for a file that this user may execute.
bool is_executable_file(const std::filesystem::path& path);

/// The folders of PATH in which a program is searched.
enum class SearchedFolders : std::uint8_t {
  all,       ///< Those relative to the current folder, too.
  absolute,  ///< The answer does not depend on the current folder.
};

/// Returns the first executable file of that name, which has no slash, in the folders of PATH.
std::optional<std::filesystem::path> find_program(std::string_view name, SearchedFolders folders);

}  // namespace optrace

#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace optrace {

// The inputs of a library's build: the sources and all headers, as the compiler lists them (-MD),
// and the compiler itself. The list, with the hashes of their contents, is stored beside the
// library. The library is reused only while all of them are unchanged.

/// Returns the arguments that make a compiler list its inputs for `object`.
std::vector<std::string> dependency_arguments(const std::filesystem::path& object);

/// Returns the files in such a list, which is a rule of make.
std::vector<std::filesystem::path> parse_dependencies(std::string_view rule);

/// Returns the files in all lists in `folder`, the folder of a build, and the programs that
/// `compiler` consists of. Paths are resolved and unique; files that the build itself made are left
/// out.
std::vector<std::filesystem::path> inputs_of_build(const std::filesystem::path& folder,
                                                   const std::filesystem::path& compiler);

/// Returns the list for a library that was built from these files. Paths below `packages`
/// (site-packages) are stored relative to it, because the same torch may lie in several places.
/// Empty if one of the files can't be read.
std::string describe_inputs(const std::filesystem::path& library,
                            const std::vector<std::filesystem::path>& files,
                            const std::filesystem::path& packages);

/// Returns true if the list beside `library` belongs to it, and all files in the list still have
/// the same contents. Compares a file's state first, so that unchanged files are not read.
bool inputs_are_the_same(const std::filesystem::path& library,
                         const std::filesystem::path& packages);

/// Returns the path of a library's list.
std::filesystem::path inputs_path(const std::filesystem::path& library);

}  // namespace optrace

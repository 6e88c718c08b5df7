#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace optrace {

// The inputs of a build: the sources and all headers, as the compiler lists them (-MD), and the
// compiler itself. The list, with the hashes of their contents and of the built libraries, is
// stored beside the libraries. These are reused only while all inputs are unchanged.

/// Returns the arguments that make a compiler list its inputs for `object`.
std::vector<std::string> dependency_arguments(const std::filesystem::path& object);

/// Returns the files in such a list, which is a rule of make.
std::vector<std::filesystem::path> parse_dependencies(std::string_view rule);

/// Returns the files in all lists in `folder`, the folder of a build, and the programs that
/// `compiler` consists of. Paths are resolved and unique; files that the build itself made are left
/// out. Calls `go_on` as run_build_steps() does.
std::vector<std::filesystem::path> inputs_of_build(const std::filesystem::path& folder,
                                                   const std::filesystem::path& compiler,
                                                   const std::function<void()>& go_on);

/// Returns the list for libraries, in load order, that were built from these files. Paths below
/// `packages` (site-packages) are stored relative to it, because the same torch may lie in several
/// places. Empty if one of the files can't be read.
std::string describe_inputs(const std::vector<std::filesystem::path>& libraries,
                            const std::vector<std::filesystem::path>& files,
                            const std::filesystem::path& packages);

/// Returns the libraries in `folder`, in load order, if its list belongs to them and all files in
/// the list still have the same contents. Compares a file's state first, so that unchanged files
/// are not read.
std::optional<std::vector<std::filesystem::path>> unchanged_libraries(
    const std::filesystem::path& folder, const std::filesystem::path& packages);

/// Returns the path of the list in a folder with libraries.
std::filesystem::path inputs_path(const std::filesystem::path& folder);

}  // namespace optrace

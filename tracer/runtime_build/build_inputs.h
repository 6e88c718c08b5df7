#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace optrace {

// What was read to build a library: the sources and every header, as the compiler notes them (-MD),
// and the compiler itself. The list with the hashes of their contents is kept beside the library,
// which is used again only while all of them are the same.

/// What tells a compiler to note what it reads for `object`.
std::vector<std::string> dependency_arguments(const std::filesystem::path& object);

/// The files that the text of such a note (a rule of make) names.
std::vector<std::filesystem::path> parse_dependencies(std::string_view rule);

/// All that the notes in `folder`, the folder of a build, name, each once and resolved, without
/// what the build made itself; and what `compiler` consists of.
std::vector<std::filesystem::path> inputs_of_build(const std::filesystem::path& folder,
                                                   const std::filesystem::path& compiler);

/// The list for a library that was built from these files. Paths below `packages` (site-packages)
/// are kept relative to it, since the same torch may lie in several places. Empty if one of them
/// can't be read.
std::string describe_inputs(const std::filesystem::path& library,
                            const std::vector<std::filesystem::path>& files,
                            const std::filesystem::path& packages);

/// Whether the list beside `library` is its own, and all files of the list still have the contents
/// that it says. A file's state is compared first, so that nothing is read where nothing was
/// touched.
bool inputs_are_the_same(const std::filesystem::path& library,
                         const std::filesystem::path& packages);

/// Where the list of a library lies.
std::filesystem::path inputs_path(const std::filesystem::path& library);

}  // namespace optrace

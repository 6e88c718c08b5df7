#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

namespace optrace {

/// A line of a `tags` file: a name that an editor knows, and a place where it is defined.
struct Tag {
  std::string name;            ///< `matmul`, `torch.matmul`, `aten::matmul`
  char kind = 'f';             ///< `f`: a C++ function; `o`: an op's entry in a yaml file.
  std::filesystem::path file;  ///< Absolute.
  std::uint32_t line = 0;      ///< From 1.
  std::string op{};            ///< `aten::matmul`; empty if there is none.
  std::string key{};           ///< A kernel's dispatch keys, `CPU, CUDA`.
  auto operator<=>(const Tag&) const = default;
};

/// Returns the text of a `tags` file in the extended format of Exuberant and Universal Ctags
/// (tags(5)), sorted by name, functions first. Tags with characters that the format can't represent
/// in a name or path are left out. `version` is optrace's: "0.1.0".
std::string to_tag_file(const std::set<Tag>& tags, const std::string& version);

/// Returns true if the file does not exist, or was written with to_tag_file().
bool is_own_tag_file(const std::filesystem::path& file);

}  // namespace optrace

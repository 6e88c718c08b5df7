#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lookup/calls/static_path.h"

namespace optrace {

struct PathTreeNode {
  const PathStep* step = nullptr;
  std::uint32_t call_line = 0;                     ///< In the file of the node above; 0 if unknown.
  std::optional<LineInterval> call_approximate{};  ///< Of call_line.
  std::string_view library;  ///< `cuDNN`, if the path ends here in a library's function.
  std::string_view stopped;  ///< Why nothing follows, if the search stopped here.
  std::vector<PathTreeNode> children;
};

/// Call paths as a tree, in which common steps are shown once.
struct PathTree {
  std::vector<PathTreeNode> roots;
  std::size_t left_out = 0;  ///< Number of paths that it does not contain.
};

/// Returns the tree of all paths, with each step; or without `all`, of the likeliest paths of each
/// branch and for each library, without functions that only pass a call on. `paths` are sorted by
/// likelihood, and must outlive the result.
PathTree path_tree(const std::vector<StaticPath>& paths, bool all);

/// Returns `aten::conv2d` for an op, and a short qualified name for a function.
std::string name_of(const PathStep& step);

/// Returns what kind of step it is, if its name does not show it: `cuDNN`, `device kernel`, `stub`,
/// an op's dispatch key.
std::string note_of(const PathTreeNode& node);

}  // namespace optrace

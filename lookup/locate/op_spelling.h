#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lookup/locate/source_indexes.h"

namespace optrace {

/// Bytes of an op's name, at most; the longest of torch 2.6 has 75.
inline constexpr std::size_t kMaxOpNameLength = 200;

/// The op that a user's spelling stands for.
struct SpelledOp {
  std::string name;                    ///< `aten::conv2d`; empty if the spelling is not an op.
  std::vector<std::string> overloads;  ///< The packet's, `name` included, in the yaml's order.
  bool chosen_by_user = false;    ///< The spelling contains the overload, or there is only one.
  std::string by_way_of;          ///< Explanation of an indirect spelling: `nn.Conv2d`'s op.
  std::vector<std::string> near;  ///< If there is no op: similar ops, the nearest first.
};

/// Parses any spelling: `conv2d`, `torch.conv2d`, `F.conv2d`, `nn.Conv2d`, `aten::conv2d`,
/// `add.Tensor`, `add_Tensor`, `Tensor.add_`, `torch.linalg.solve`, `torch.ops.aten.add.Tensor`. A
/// packet without an overload stands for the overload without a name. If there is none, it stands
/// for the first one in the yaml that is not an out variant.
SpelledOp find_spelled_op(const SourceIndexes& index, std::string_view spelling);

/// Returns `aten::add.Tensor` for `torch.ops.aten.add.Tensor`; nothing for other spellings.
std::optional<std::string> of_torch_ops(std::string_view spelling);

/// Returns at most `limit` of `names` that are similar to `misspelt`, the nearest first.
std::vector<std::string> near_names(std::string_view misspelt,
                                    const std::vector<std::string>& names, std::size_t limit);

}  // namespace optrace

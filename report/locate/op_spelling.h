#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/locate/source_indexes.h"

namespace optrace {

/// An op name taken apart: `aten::add_.Tensor`.
struct OpName {
  std::string space;     ///< `aten`
  std::string base;      ///< `add_`
  std::string overload;  ///< `Tensor`; empty for the one without a name.

  std::string packet() const { return space + "::" + base; }
  std::string full() const { return overload.empty() ? packet() : packet() + "." + overload; }
};
OpName split_op_name(std::string_view name);

/// What a spelling of PyTorch's users stands for.
struct SpelledOp {
  std::string name;  ///< `aten::conv2d`; empty if it is no op.
  std::vector<std::string>
      overloads;                ///< All of that packet, in the yaml's order, `name` included.
  bool chosen_by_user = false;  ///< The spelling has the overload, or there is only one.
  std::string by_way_of;  ///< How it was understood, where that isn't plain: `nn.Conv2d`'s op.
  std::vector<std::string> near;  ///< Where it is none: ops of similar names, nearest first.
};

/// Reads any spelling: `conv2d`, `torch.conv2d`, `F.conv2d`, `nn.Conv2d`, `aten::conv2d`,
/// `add.Tensor`, `add_Tensor`, `Tensor.add_`, `torch.linalg.solve`, `torch.ops.aten.add.Tensor`.
/// A packet without overload stands for the overload without a name, or else for its first in the
/// yaml that is no out variant.
SpelledOp find_spelled_op(const SourceIndexes& index, std::string_view spelling);

/// `aten::add.Tensor` of `torch.ops.aten.add.Tensor`; nothing for other spellings.
std::optional<std::string> of_torch_ops(std::string_view spelling);

/// At most `limit` of `names` that a user may have meant by `wanted`, nearest first.
std::vector<std::string> near_names(std::string_view wanted, const std::vector<std::string>& names,
                                    std::size_t limit);

}  // namespace optrace

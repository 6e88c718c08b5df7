#pragma once

#include <functional>
#include <set>
#include <string_view>

#include "src/inputs/index_choice.h"
#include "src/inputs/local_sources.h"
#include "src/tags/tag_file.h"

namespace optrace {

/// Returns tags for the ops and Python builtins of an index, with the places that are on this
/// machine: kernels and bindings in a source tree, ops in the yaml file of the wheel or of the
/// tree. An op has the tags `add_`, `aten::add_.Tensor` and those of its builtins,
/// `torch.Tensor.add_`. Takes seconds. Throws Error(interrupted).
std::set<Tag> tags_of(const IndexChoice& choice, const LocalSources& sources,
                      const std::function<void(std::string_view)>& progress);

}  // namespace optrace

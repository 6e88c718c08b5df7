#include "pytorch/source/source_files.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace optrace {

bool is_generated_source(std::string_view file) {
  // In the build folder or in the source tree.
  constexpr auto kGenerated = std::to_array<std::string_view>(
      {"build/", "aten/src/ATen/ops/", "aten/src/ATen/core/TensorBody.h", kGeneratedAutograd,
       "torch/csrc/lazy/generated/", kGeneratedShims, "torch/version.py"});
  return std::ranges::any_of(kGenerated,
                             [&](std::string_view prefix) { return file.starts_with(prefix); });
}

std::string_view path_in_tree(std::string_view file) {
  constexpr auto kTops = std::to_array<std::string_view>(
      {"build/aten/src/", "aten/src/", "c10/", "caffe2/", kCsrc, "torch/"});
  std::string_view best;
  for (const std::string_view top : kTops) {
    for (std::size_t at = file.find(top); at != std::string_view::npos;
         at = file.find(top, at + 1)) {
      if (at != 0 && file[at - 1] != '/') continue;
      if (file.size() - at > best.size()) best = file.substr(at);
      break;
    }
  }
  const std::string_view lead = file.substr(0, file.size() - best.size());
  return lead.find("third_party/") == std::string_view::npos ? best : std::string_view();
}

}  // namespace optrace

#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "indexer/store/completeness.h"
#include "src/inputs/selected_index.h"

namespace optrace {

/// What an index has of a torch.
struct Coverage {
  KernelCoverage kernels;
  std::vector<LibraryCoverage> libraries;

  bool reaches(double percent) const {
    return kernels.available().percent() >= percent &&
           std::ranges::all_of(libraries, [&](const auto& library) {
             return library.functions().percent() >= percent;
           });
  }
};

/// Returns it for programs: schema optrace.completeness/1.
std::string coverage_json(const SelectedIndex& choice, const Coverage& coverage);

}  // namespace optrace

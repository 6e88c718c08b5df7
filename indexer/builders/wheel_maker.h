#pragma once

#include <cstdint>
#include <filesystem>

#include "indexer/builders/index_maker.h"

namespace optrace {

struct MakeWheelIndexOptions {
  std::filesystem::path python;  ///< A Python with a torch wheel.
  std::filesystem::path output;  ///< Empty: the user's index folder.
  int jobs = 0;                  ///< As in MakeIndexOptions.
  std::uint64_t worker_memory = 0;
};

/// Makes the index of a torch from its wheel alone. Generated code comes from the wheel's own
/// torchgen, declarations and inline functions from its headers, ops and Python names from itself:
/// these lines are exact. The places of other functions come from the nearest index that was made
/// from source, corrected by the anchors in the wheel's code (indexer/wheel/line_mapping.h): they
/// are exact or approximate. The note `made_from` of the index is `wheel`, and `base` is the
/// version of the index that it started from. Throws as make_index does.
MadeIndex make_wheel_index(const MakeWheelIndexOptions& options);

}  // namespace optrace

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "indexer/store/index_contents.h"
#include "indexer/store/index_store.h"
#include "indexer/wheel/wheel_code.h"

namespace optrace {

/// Carries the hand-written code of the index `base`, which is of another version of PyTorch, over
/// to the version of a wheel: definitions, calls and registrations, with the lines that the anchors
/// of both give (anchor_alignment.h). A function that the wheel does not contain by itself, and
/// whose file the wheel's code does not mention, keeps its place without a claim. Files that are
/// gone, and files for which `is_known` is true because they were read, are left out. Functions
/// that only the wheel has, and that contain an anchor, are added with the lines between which they
/// start. `base` must have anchors.
IndexContents carry_code(const Index& base, const WheelCode& wheel,
                         const std::function<bool(const std::string& file)>& is_known);

/// Gives the results of carried functions the enumerators that the wheel's own headers define
/// (`of_wheel`). Those of other enumerations are left out: their numbers may have changed.
void fit_enumerators(IndexContents& carried, const std::vector<IndexContents::Function>& of_wheel);

}  // namespace optrace

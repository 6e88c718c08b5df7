#pragma once

#include <filesystem>

#include "lookup/locate/locate_output.h"
#include "lookup/locate/located.h"
#include "src/inputs/selected_index.h"

namespace optrace {

/// An answer whose source file is on this machine.
struct LocalAnswer {
  const Located* located = nullptr;
  std::filesystem::path file;
};

/// Returns the first answer with a known file, or a part of it if it is a builtin, and the file.
/// Throws Error(usage) with the way to get the source if it is not on this machine.
LocalAnswer local_answer(const SelectedIndex& choice, const LocateResult& result);

/// Adds the text of that answer's definition to the result. Throws Error(usage) too if the file
/// does not define it, because it is of another version than the index.
void add_definition(const SelectedIndex& choice, LocateResult& result);

}  // namespace optrace

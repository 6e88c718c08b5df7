#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "indexer/store/index_store.h"
#include "indexer/store/indexed_source.h"
#include "pytorch/installed/installed_torch.h"
#include "src/inputs/python_choice.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// The index for questions about the torch in use.
struct SelectedIndex {
  Index index;
  std::vector<Index> projects;          ///< The indexes of third-party extensions.
  std::optional<InstalledTorch> torch;  ///< Nothing if no torch was found.
  bool exact = false;                   ///< True if `index` was made from that torch's source.
  std::vector<std::string> notices;     ///< Messages for standard error, one sentence each.
};

/// Chooses an index. `python_option` is the value of --python, or empty (choose_python). Without a
/// torch it is the newest index; without an index of the torch it is the nearest one. A notice
/// reports this. Throws Error(usage) if the requested Python is not valid, or if there is no index
/// at all.
SelectedIndex choose_index(const std::string& python_option);

/// If the chosen index is made on demand (`optrace source add DIR --on-demand`) and add_on_demand
/// was never called for one of `names`, indexes them, with progress on standard error, and chooses
/// again. Returns true if it did. If indexing fails, returns false and sets `choice.notices` to the
/// reason. Existing notices are dropped in both cases; they must have been shown before. Throws
/// Error(interrupted).
bool index_on_demand(const std::vector<std::string>& names, const std::string& python_option,
                     SelectedIndex& choice);

/// Starts making an index of the traced torch in the background if none fits it, and says so on
/// standard error.
void prepare_index(const std::filesystem::path& python, const Trace& trace);

/// Writes the choice's notices to standard error and clears them.
void print_notices(SelectedIndex& choice);

/// Returns the indexes of extensions, which belong to the choice.
std::vector<const Index*> projects_of(const SelectedIndex& choice);

/// Returns the properties of the choice for the head of an output.
IndexedSource source_of(const SelectedIndex& choice);

}  // namespace optrace

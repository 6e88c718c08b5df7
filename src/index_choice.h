#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "indexer/store/index_store.h"
#include "report/locate/locate_output.h"
#include "src/python_choice.h"

namespace optrace {

/// A torch as its files say what it is: found without starting Python.
struct InstalledTorch {
  std::filesystem::path python;  ///< The interpreter that imports it.
  std::filesystem::path folder;  ///< `.../site-packages/torch`
  std::string version;           ///< `2.6.0+cu124`
  std::string git_version;       ///< The upstream commit, 40 hex digits; empty where it says none.
};

/// The torch that an interpreter would import: looked for in the folders that Python's `site`
/// module puts on the path ($PYTHONPATH, the virtual environment's or the prefix's site-packages,
/// Debian's dist-packages, the user's own), and what torch/version.py says there. Nothing where
/// there is none, or where the interpreter is a script (a pyenv shim) that would have to be run to
/// tell.
std::optional<InstalledTorch> find_torch(const std::filesystem::path& python);

/// The index that answers questions about the torch at hand.
struct IndexChoice {
  Index index;
  std::vector<Index> projects;          ///< Of third-party extensions.
  std::optional<InstalledTorch> torch;  ///< Nothing where no torch was found.
  bool exact = false;                   ///< Whether `index` was made from that torch's source.
  std::vector<std::string> notices;     ///< For standard error, a sentence each.
};

/// `python_option` is --python's value, or empty (choose_python). Without a torch it is the newest
/// index, for another torch than any index is of the nearest one, and a notice says so. Throws
/// Error(usage) when the Python that was asked for is none, or when there is no index at all.
IndexChoice choose_index(const std::string& python_option);

/// Where the index chosen is one that is made on demand (`optrace source add DIR --on-demand`) and
/// was never asked for one of `names` (add_on_demand): has these indexed, with progress on standard
/// error, and chooses anew. True if it did. Otherwise `choice.notices` are what is wrong with the
/// tree, if something is; those that were there have been shown before. Throws Error(interrupted).
bool index_on_demand(const std::vector<std::string>& names, const std::string& python_option,
                     IndexChoice& choice);

/// Shows the choice's notices on standard error, once.
void say_notices(IndexChoice& choice);

/// The choice, for an output's head.
LocateSource source_of(const IndexChoice& choice);

}  // namespace optrace

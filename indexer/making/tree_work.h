#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "indexer/frontend/unit_parser.h"
#include "indexer/sources/file_hashes.h"
#include "indexer/sources/progress_reporter.h"
#include "indexer/sources/python_installation.h"
#include "indexer/sources/source_tree.h"
#include "indexer/sources/work_folder.h"
#include "indexer/store/index_contents.h"

namespace optrace {

/// The work of indexing a PyTorch source tree with the torch wheel of its version, step by step;
/// what was done before and is as it was is not done again.
class TreeWork {
 public:
  /// Throws Error(usage) when the tree and the Python do not fit, or another optrace is at work on
  /// them.
  TreeWork(SourceTree tree, const std::filesystem::path& python, ProgressReporter& progress);

  /// Generates code and reads ops and Python names; comes before all else. Throws Error(failed).
  void prepare();

  /// All units of the tree and of the generated code, by name.
  std::vector<SourceUnit> units() const;

  /// Has the units parsed and the headers shared by their groups read.
  ParsedUnits parse(const std::vector<SourceUnit>& units, const ParseOptions& options);

  const std::vector<IndexContents::Op>& ops() const { return ops_; }

  /// Writes the index of what the units gave. `notes` are added to its meta. Throws Error(usage),
  /// Error(failed).
  void write(IndexContents contents, const std::map<std::string, std::string>& notes,
             const std::filesystem::path& path) const;

  const SourceTree& tree() const { return tree_; }
  const PythonInstallation& python() const { return python_; }
  const WorkFolder& folder() const { return work_; }

 private:
  std::filesystem::path generated() const { return work_.path() / "generated"; }
  UnitsToParse units_to_parse(const std::vector<SourceUnit>& sources) const;

  SourceTree tree_;
  PythonInstallation python_;
  ProgressReporter& progress_;
  WorkFolder work_;
  std::vector<IndexContents::Op> ops_;
  FileHashes hashes_;  // Of what units read: not before all is generated.
};

}  // namespace optrace

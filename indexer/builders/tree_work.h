#pragma once

#include <filesystem>
#include <map>
#include <set>
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

/// The steps of indexing a PyTorch source tree with the torch wheel of the same version. Steps
/// whose inputs have not changed are not repeated.
class TreeWork {
 public:
  /// Throws Error(usage) if the tree and the Python do not match, or if another optrace is indexing
  /// them.
  TreeWork(SourceTree tree, const std::filesystem::path& python, ProgressReporter& progress);

  /// Generates code and reads ops and Python names. Must be called first. Throws Error(failed).
  void prepare();

  /// Returns all units of the tree and of the generated code, sorted by name.
  std::vector<SourceUnit> units() const;

  /// Parses the units and the headers shared by their groups.
  ParsedUnits parse(const std::vector<SourceUnit>& units, const ParseOptions& options);

  const std::vector<IndexContents::Op>& ops() const { return ops_; }

  /// Compares the source with the code of the wheel, by its anchors, which are added to the
  /// contents. Lines in files that are not what the wheel was built from become approximate.
  /// Returns these files. Throws Error(usage) if the wheel's libraries can't be read.
  std::set<std::string> compare_with_wheel(IndexContents& contents) const;

  /// Writes the index with the findings in the units. `notes` are added to its meta. Throws
  /// Error(usage), Error(failed).
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
  FileHashes hashes_;  // Hashes of the files that units read; valid once all code is generated.
};

}  // namespace optrace

#pragma once

#include <set>
#include <string>
#include <vector>

#include "indexer/frontend/unit_parser.h"
#include "indexer/sources/progress_reporter.h"
#include "indexer/sources/python_installation.h"
#include "indexer/sources/work_folder.h"
#include "indexer/store/index_contents.h"

namespace optrace {

/// What the headers of a wheel contain.
struct WheelHeaders {
  IndexContents contents;
  std::set<std::string> files;  ///< The headers that were read, as in the source tree.
  std::size_t units = 0;
  std::size_t parsed = 0;  ///< Number of units that were parsed now.
  std::vector<FailedUnit> failed;
};

/// Reads the headers in a wheel's include folder with libclang: those that PyTorch's sources share,
/// and those of `also` (paths in the source tree) that the wheel contains. Lines are those of the
/// source: some wheels have one more line at the start of headers. Headers that the build generates
/// have the paths that a build gives them. Throws as parse_units does.
WheelHeaders read_wheel_headers(const PythonInstallation& python, const WorkFolder& work,
                                const std::set<std::string>& also, const ParseOptions& options,
                                ProgressReporter& progress);

}  // namespace optrace

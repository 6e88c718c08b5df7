#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/locate/locate.h"
#include "report/output/terminal_text.h"

namespace optrace {

/// Which source the lines are of, for the output.
struct LocateSource {
  std::string torch_version;      ///< Of the torch at hand; empty without one.
  std::string torch_git_version;  ///< Its commit; empty if unknown.
  std::string version;            ///< Of the index.
  bool exact = false;             ///< Whether the index is of the torch at hand.
};

struct LocateTextOptions {
  std::size_t width = 0;  ///< Columns; 0: no limit.
  bool all = false;       ///< Also kernels of which no definition is known.
  TerminalStyle style;
};

/// Answers for people: what it is, its name, file:line; below it and indented what belongs to it.
/// Lines of another version's source have a `~`.
std::string to_text(const LocateResult& result, const LocateSource& source,
                    const LocateTextOptions& options);

/// Answers as optrace.locate/1 (locate.schema.json), indented, a newline at the end.
std::string to_json(const LocateResult& result, const LocateSource& source);

/// The same on one line.
std::string to_json_line(const LocateResult& result, const LocateSource& source);

/// What stands in for an answer where there is none: `error` and `suggestions`, on one line.
std::string error_to_json_line(std::string_view query, std::string_view error,
                               const std::vector<std::string>& suggestions,
                               const LocateSource& source);

}  // namespace optrace

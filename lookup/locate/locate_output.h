#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/store/indexed_source.h"
#include "lookup/locate/locate.h"
#include "present/terminal_text.h"

namespace optrace {

/// Returns the relation of an answer's line to the installed torch. A file that was found on this
/// machine is that torch's own.
IndexMatch match_of(const Located& located, const IndexedSource& source);

/// Returns the same for the line of a callee's call.
IndexMatch match_of_call(const Located& located, const IndexedSource& source);

/// Returns the place of an answer, `file:123` or `file:~123`; empty if its file is unknown.
std::string place_text(const Located& located, const IndexedSource& source);

/// Returns the line of a callee's call, `123` or `~123`; empty if it is unknown.
std::string call_text(const Located& located, const IndexedSource& source);

struct LocateTextOptions {
  std::size_t width = 0;  ///< Columns; 0: no limit.
  bool all = false;       ///< Also show kernels without a known definition.
  TerminalStyle style;
};

/// Returns answers for people: kind, name and file:line, with the parts indented below.
/// Approximate lines, such as those of another version's source, are marked with `~`.
std::string to_text(const LocateResult& result, const IndexedSource& source,
                    const LocateTextOptions& options);

/// Returns a definition as text, below a line with its place; with colours for keywords, strings
/// and comments if the style has them.
std::string to_text(const LocatedDefinition& definition, const LocateTextOptions& options);

/// Returns answers as optrace.locate/1 (locate.schema.json), indented, with a newline at the end.
std::string to_json(const LocateResult& result, const IndexedSource& source);

/// Same, on one line.
std::string to_json_line(const LocateResult& result, const IndexedSource& source);

/// Returns the replacement for an answer that does not exist: `error` and `suggestions`, on one
/// line.
std::string error_to_json_line(std::string_view query, std::string_view error,
                               const std::vector<std::string>& suggestions,
                               const IndexedSource& source);

}  // namespace optrace

#pragma once

#include <string>
#include <string_view>

#include "indexer/store/indexed_source.h"
#include "lookup/explain/explain.h"
#include "present/terminal_text.h"

namespace optrace {

struct ExplainTextOptions {
  bool all = false;  ///< Show every dispatch key and every path.
  TerminalStyle style;
};

/// Returns the output of `optrace explain OP` for people.
std::string to_text(const Explanation& explanation, const IndexedSource& source,
                    const ExplainTextOptions& options);

/// Returns schema optrace.explain/1 (lookup/schemas/explain.schema.json), indented, with a newline
/// at the end.
std::string to_json(const Explanation& explanation, const IndexedSource& source);

/// Same, on one line.
std::string to_json_line(const Explanation& explanation, const IndexedSource& source);

/// Returns, on one line, the query, the error and the remedy; for `optrace explain -`.
std::string error_to_json_line(std::string_view asked, std::string_view error,
                               std::string_view remedy);

}  // namespace optrace

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "report/explain/explain.h"
#include "report/model/source_link.h"
#include "report/output/terminal_text.h"

namespace optrace {

struct ExplainTextOptions {
  bool all = false;  ///< Show every dispatch key and every path.
  TerminalStyle style;
};

/// For people: the output of `optrace explain OP`.
std::string explain_text(const Explanation& explanation, const ExplanationSource& source,
                         const ExplainTextOptions& options);

/// Returns schema optrace.explain/1 (report/schemas/explain.schema.json), on one line if `compact`.
std::string explain_json(const Explanation& explanation, const ExplanationSource& source,
                         bool compact);

/// Returns, on one line, the query, the error and the remedy; for `optrace explain -`.
std::string explain_error_json(std::string_view asked, std::string_view error,
                               std::string_view remedy);

}  // namespace optrace

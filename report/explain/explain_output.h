#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "report/explain/explain.h"
#include "report/model/source_link.h"
#include "report/output/terminal_text.h"

namespace optrace {

struct ExplainTextOptions {
  bool all = false;  ///< Every dispatch key and every way down.
  TerminalStyle style;
};

/// For people: what `optrace explain OP` prints.
std::string explain_text(const Explanation& explanation, const ExplanationSource& source,
                         const ExplainTextOptions& options);

/// The schema optrace.explain/1 (report/schemas/explain.schema.json), on one line if `compact`.
std::string explain_json(const Explanation& explanation, const ExplanationSource& source,
                         bool compact);

/// On one line: what was asked, what is wrong with it, and what to do; for `optrace explain -`.
std::string explain_error_json(std::string_view asked, std::string_view error,
                               std::string_view remedy);

}  // namespace optrace

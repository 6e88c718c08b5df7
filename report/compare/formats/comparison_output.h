#pragma once

#include <string>

#include "present/terminal_text.h"
#include "report/compare/comparison.h"
#include "report/model/report.h"

namespace optrace {

/// The names of the two reports in the text.
struct ComparisonLabels {
  std::string first, second;
};

/// For people: a line for each difference, with the path to it. Equal differences at several places
/// are listed once.
std::string to_text(const Report& first, const Report& second, const Comparison& comparison,
                    const ComparisonLabels& labels, const TerminalStyle& style);

/// For programs: schema optrace.comparison/1.
std::string to_json(const Report& first, const Report& second, const Comparison& comparison);

}  // namespace optrace

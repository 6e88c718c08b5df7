#pragma once

#include <string>

#include "lookup/source_compare/source_comparison.h"
#include "present/terminal_text.h"

namespace optrace {

/// One of the two versions, for the head of an output.
struct ComparedSource {
  std::string label;  ///< As the user named it.
  std::string torch_version;
  std::string git_version;  ///< Empty if unknown.
  std::string index;        ///< Path of the index file.
};

/// For people: the ops that were added, removed and changed, with each change in a line.
std::string to_text(const SourceComparison& comparison, const ComparedSource& first,
                    const ComparedSource& second, const TerminalStyle& style);

/// For programs: schema optrace.source_comparison/1.
std::string to_json(const SourceComparison& comparison, const ComparedSource& first,
                    const ComparedSource& second);

}  // namespace optrace

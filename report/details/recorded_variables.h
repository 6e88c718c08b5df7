#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/model/detail.h"
#include "tracer/trace/op_record.h"

namespace optrace {

/// Returns the local variables of a Python function whose text was recorded when its calls ended.
/// Anything else than such a record is skipped.
std::vector<RecordedVariable> recorded_variables(const OpRecords& records,
                                                 std::span<const OpCallCount> counts);

/// Returns the variables in one line, `why_not_fast_path: 'training is enabled'`, each value with
/// its number of calls if there are several. Empty if there are none.
std::string variables_note(const std::vector<RecordedVariable>& variables);

}  // namespace optrace

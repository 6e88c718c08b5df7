#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/job/numbered_values.h"
#include "tracer/trace/op_record.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// What the paths of several traces refer to: modules, functions and op records, numbered by
/// content. The numbers of a trace's own functions and records are those of the trace that was
/// added last and, after take(), those of the merged trace.
class MergedContents {
 public:
  void add(const Trace& trace);

  std::uint32_t function(std::uint32_t number) const { return function_numbers_[number]; }
  std::uint32_t python_function(std::uint32_t number) const {
    return at_or_none(python_numbers_, number);
  }
  std::uint32_t taken_record(std::uint32_t number) const { return record_numbers_[number]; }

  /// Returns the number of an op record of the trace added last, from 1; 0 for 0.
  std::uint32_t record_of(const Trace& trace, std::uint32_t record);

  std::string_view record_text(std::uint32_t number) const {
    return number == 0 ? std::string_view() : std::string_view(records_[number - 1]);
  }

  /// Returns the number of an op's name: any of its records may stand for the op.
  std::uint32_t op_of(std::uint32_t number, std::uint32_t record, const OpRecords& records);

  /// Moves modules, functions and the op records that the paths refer to into the trace, ordered by
  /// content. `keys` becomes the first record.
  void take(const std::vector<TracePath>& paths, std::string keys, Trace& trace);

 private:
  void take_records(const std::vector<TracePath>& paths, std::string keys, Trace& trace);

  std::vector<TraceModule> modules_;
  std::map<std::pair<std::string, std::string>, std::uint32_t> module_numbers_;
  Numbered<TraceFunction> functions_;
  Numbered<PythonFunction> python_functions_;
  Numbered<std::string> records_;   // The first one has number 1.
  std::vector<std::uint32_t> ops_;  // The op of each record.
  std::map<std::string, std::uint32_t> op_numbers_;
  TraceFunction sought_;
  std::vector<std::uint32_t> function_numbers_, python_numbers_, record_numbers_;
};

}  // namespace optrace

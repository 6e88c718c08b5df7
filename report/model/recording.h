#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tracer/trace/trace_meta.h"

namespace optrace {

/// What was recorded, and how, for the head of a report. What is unknown is empty or 0.
struct Recording : RecordedCall {
  std::uint64_t duration = 0;     ///< Nanoseconds, of a program.
  std::uint64_t events = 0;       ///< Their number, of a program.
  std::uint64_t command_cpu = 0;  ///< Nanoseconds of processor time of optrace's own process.
  bool has_selection = false;     ///< Not everything was counted.
  std::uint64_t exit_status = 0;  ///< Of a program that failed.
  std::vector<std::string> differences;  ///< Sentences about the processes of a merged trace.
  std::string shown;  ///< The options by which frames were selected; empty if all are shown.
};

}  // namespace optrace

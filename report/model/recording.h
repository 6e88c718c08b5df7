#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/model/report_reader.h"
#include "tracer/trace/trace_meta.h"

namespace optrace {

/// What was recorded, and how, for the head of a report. What is unknown is empty or 0.
struct Recording {
  std::string op;    ///< The requested op, as it was given; empty for a program.
  std::string call;  ///< The Python expression or the program that was run.
  std::vector<CallInput> inputs;
  /// The options of the request, but for --backward. One that is no text is an empty word.
  std::vector<std::string> options;
  bool backward = false;  ///< The backward pass is part of the recording.
  std::string python;     ///< Version of the interpreter.
  /// The interpreter's path and where it was found, if that needs to be said.
  std::string interpreter, interpreter_from;
  std::string torch_folder;       ///< The folder from which torch was imported.
  std::uint64_t duration = 0;     ///< Nanoseconds, of a program.
  std::uint64_t events = 0;       ///< Their number, of a program.
  std::uint64_t command_cpu = 0;  ///< Nanoseconds of processor time of optrace's own process.
  bool has_selection = false;     ///< Not everything was counted.
  std::uint64_t exit_status = 0;  ///< Of a program that failed.
  ReportProcess process;
  std::vector<std::string> warnings;     ///< Sentences for the user.
  std::vector<std::string> differences;  ///< Sentences about the processes of a merged trace.
  std::string shown;  ///< The options by which frames were selected; empty if all are shown.
};

}  // namespace optrace

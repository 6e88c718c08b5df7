#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/store/index_writer.h"

namespace optrace {

// Driver and worker exchange JSON objects, one per line: first a WorkerSetup, then for each unit a
// UnitTask to the worker and a UnitStatus back. The findings are passed in one file per task, so
// that a worker that dies while writing leaves nothing that could be mistaken for a result.

/// A folder and its name in the index: "" for the source tree itself.
struct NamedFolder {
  std::string folder;  ///< Absolute.
  std::string name;
};

struct WorkerSetup {
  std::vector<NamedFolder> folders;  ///< Only files in these folders are indexed.
  /// Absolute paths of folders within them that are not indexed.
  std::vector<std::string> left_out;
  std::uint64_t memory_limit = 0;  ///< Limit of a worker's private memory in bytes; 0: no limit.
};

struct UnitTask {
  std::uint32_t number = 0;
  std::string source;                  ///< Absolute.
  std::vector<std::string> arguments;  ///< Compiler arguments, without the source.
  std::string result;                  ///< The file to write the findings to.
  std::string precompiled;  ///< Where to save the unit as a precompiled header; may be empty.
};

/// The outcome of a task. After out_of_memory the worker exits.
enum class UnitOutcome { done, not_parsed, not_saved, out_of_memory };

/// Returns a message for the user about an outcome other than done.
std::string describe(UnitOutcome outcome);

struct UnitStatus {
  std::uint32_t number = 0;
  UnitOutcome outcome = UnitOutcome::not_parsed;
  std::uint32_t errors = 0;  ///< Number of compiler errors, which don't end parsing.
  std::string first_error;   ///< Empty if there was no error.
};

std::string to_line(const WorkerSetup& setup);
std::string to_line(const UnitTask& task);
std::string to_line(const UnitStatus& status);

/// These parse a line of the other process. They throw Error(failed) if it is invalid.
WorkerSetup parse_setup(std::string_view line);
UnitTask parse_task(std::string_view line);
UnitStatus parse_status(std::string_view line);

/// The findings in a unit, and the files that it read.
struct UnitFindings {
  std::vector<IndexContents::Function> functions;
  std::vector<IndexContents::Registration> registrations;
  std::vector<std::string> inclusions;
};

// A result is text with one finding per line and fields separated by tabs. Kinds are numbers:
//     F symbol file line kind               a function;
//     C callee line kind                    a call of the function above;
//     R kind name key function file line    a registration;
//     D path                                a file that the unit read.
// The result of a unit does not depend on the units that the worker read before.
void append_function(const IndexContents::Function& function, std::string& text);
void append_registration(const IndexContents::Registration& registration, std::string& text);
void append_inclusion(std::string_view path, std::string& text);

/// Throws Error(failed) if the text was not made by these functions.
UnitFindings parse_findings(std::string_view text);

}  // namespace optrace

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/store/index_writer.h"

namespace optrace {

// Driver and worker speak one JSON object a line: WorkerSetup first, then a UnitTask down and a
// UnitStatus up for each unit. The functions found go through a file per task, so that a worker
// that dies half-way leaves nothing that could be taken for a result.

/// A folder, and what the index calls it: "" for the source tree itself.
struct NamedFolder {
  std::string folder;  ///< Absolute.
  std::string name;
};

struct WorkerSetup {
  std::vector<NamedFolder> folders;   ///< What lies in none of them is not indexed.
  std::vector<std::string> left_out;  ///< Folders (absolute) within them that are not indexed.
  std::uint64_t memory_limit = 0;     ///< Bytes of its own that a worker may have; 0: any number.
};

struct UnitTask {
  std::uint32_t number = 0;
  std::string source;                  ///< Absolute.
  std::vector<std::string> arguments;  ///< The compiler's, without the source.
  std::string result;                  ///< Where to write what was found.
  std::string precompiled;             ///< Write the unit there as a precompiled header; or empty.
};

/// After out_of_memory the worker is gone.
enum class UnitOutcome { done, not_parsed, not_saved, out_of_memory };

/// What a user is told of an outcome other than done.
std::string describe(UnitOutcome outcome);

struct UnitStatus {
  std::uint32_t number = 0;
  UnitOutcome outcome = UnitOutcome::not_parsed;
  std::uint32_t errors = 0;  ///< The compiler's, after which it went on.
  std::string first_error;   ///< Empty if there was none.
};

std::string to_line(const WorkerSetup& setup);
std::string to_line(const UnitTask& task);
std::string to_line(const UnitStatus& status);

/// These throw Error(failed) for a line that is not one of the other side's.
WorkerSetup parse_setup(std::string_view line);
UnitTask parse_task(std::string_view line);
UnitStatus parse_status(std::string_view line);

/// What a unit gave, and the files that it was read from.
struct UnitFindings {
  std::vector<IndexContents::Function> functions;
  std::vector<IndexContents::Registration> registrations;
  std::vector<std::string> inclusions;
};

// A result is text, a line a finding, its fields separated by tabs; kinds are numbers:
//     F symbol file line kind               a function,
//     C callee line kind                    behind it a line for each of its calls;
//     R kind name key function file line    a registration;
//     D path                                a file that the unit read.
// It says the same of a unit whatever the worker read before.
void append_function(const IndexContents::Function& function, std::string& text);
void append_registration(const IndexContents::Registration& registration, std::string& text);
void append_inclusion(std::string_view path, std::string& text);

/// Throws Error(failed) when the text was not made by these.
UnitFindings parse_findings(std::string_view text);

}  // namespace optrace

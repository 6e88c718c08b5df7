#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/index_writer.h"

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
};

struct UnitTask {
  std::uint32_t number = 0;
  std::string source;                  ///< Absolute.
  std::vector<std::string> arguments;  ///< The compiler's, without the source.
  std::string result;                  ///< Where to write what was found.
  std::string precompiled;             ///< Write the unit there as a precompiled header; or empty.
};

enum class UnitOutcome { done, not_parsed, not_saved };

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

/// The functions of a unit, as text: a line `F symbol file line`, tab-separated, and behind it a
/// line `C callee line` for each of its calls.
void append_function(const IndexContents::Function& function, std::string& text);

/// Throws Error(failed) when the text was not made by append_function.
std::vector<IndexContents::Function> parse_functions(std::string_view text);

}  // namespace optrace

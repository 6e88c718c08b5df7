#pragma once

#include <exception>

#include "platform/error.h"
#include "src/command_line/command_row.h"

namespace optrace {

/// Thrown by a command that has said all that there is to say, to end with an exit status:
/// `differs`, or that of a program that it ran.
class CommandEnded : public std::exception {
 public:
  explicit CommandEnded(int status) : status_(status) {}
  explicit CommandEnded(ExitStatus status) : CommandEnded(static_cast<int>(status)) {}

  const char* what() const noexcept override { return "the command has ended"; }
  int status() const noexcept { return status_; }

 private:
  int status_;
};

// The options and the action of each command, for the table in commands.cpp. An action throws
// Error, which main() prints, or CommandEnded.
CommandBody op_command();
CommandBody attach_command();
CommandBody cache_clean_command();
CommandBody cache_list_command();
CommandBody check_command();
CommandBody compare_command();
CommandBody completions_command();
CommandBody doctor_command();
CommandBody explain_command();
CommandBody findings_command();
CommandBody layers_command();
CommandBody locate_command();
CommandBody lsp_command();
CommandBody mcp_command();
CommandBody merge_command();
CommandBody report_command();
CommandBody run_command();
CommandBody source_add_command();
CommandBody source_compare_command();
CommandBody source_coverage_command();
CommandBody source_fetch_command();
CommandBody source_list_command();
CommandBody tensors_command();

}  // namespace optrace

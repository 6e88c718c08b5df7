#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/command_line/command_description.h"

namespace optrace {

/// A word that can complete a command line.
struct Candidate {
  std::string word;
  std::string help{};  ///< On one line; may be empty.
};

/// What can stand at the end of a command line.
struct Completion {
  std::vector<Candidate> candidates;
  bool files = false;  ///< Any file as well.
};

/// The names that values are completed with. Each function gets the start of the word, and returns
/// words that begin with it.
class CompletionNames {
 public:
  virtual ~CompletionNames() = default;
  /// Ops, functions and modules, as `optrace OP` takes them.
  virtual std::vector<std::string> ops(std::string_view start) const = 0;
  /// Ops and everything of Python's interface, as `optrace locate` takes them.
  virtual std::vector<std::string> names(std::string_view start) const = 0;
  /// The user's Python processes, with their command lines.
  virtual std::vector<Candidate> processes(std::string_view start) const = 0;
};

/// Completes the last of `words`, which may be empty; the others are complete. The program's name
/// is not among them.
Completion complete(const CommandDescription& command, std::span<const std::string> words,
                    const CompletionNames& names);

/// Returns a completion for the scripts of completion_scripts.h: a line for each candidate, with a
/// tab before its help, and the line `:files` if files are possible.
std::string to_lines(const Completion& completion);

}  // namespace optrace

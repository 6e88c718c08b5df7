#include "src/commands/tracing/traced_command.h"

#include <cstdio>

#include <fmt/core.h>
#include <unistd.h>

#include "platform/error.h"
#include "src/command_line/command_description.h"
#include "src/command_line/command_line.h"
#include "src/commands/commands.h"
#include "src/commands/tracing/op_command.h"
#include "src/commands/tracing/run_command.h"
#include "src/terminal/command_words.h"

namespace optrace {
namespace {

/// Returns true for the name of a command that neither takes an op nor always runs a program.
bool traces_nothing(const std::string& name) {
  const CommandDescription program = describe(optrace_command());
  const CommandDescription* const command = program.command(name);
  return command != nullptr && command->program_after != "";
}

/// Redirects standard output to standard error during its lifetime.
class OutputToError {
 public:
  OutputToError() : kept_(::dup(STDOUT_FILENO)) {
    std::fflush(stdout);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
  }
  ~OutputToError() {
    std::fflush(stdout);
    if (kept_ < 0) return;
    ::dup2(kept_, STDOUT_FILENO);
    ::close(kept_);
  }
  OutputToError(const OutputToError&) = delete;
  OutputToError& operator=(const OutputToError&) = delete;

 private:
  int kept_;
};

}  // namespace

std::vector<Trace> trace_command(const std::string& line) {
  std::vector<std::string> words = split_words(line);
  if (!words.empty() && words[0] == "optrace") words.erase(words.begin());
  if (words.empty()) {
    throw Error(ExitStatus::usage, "the command is empty",
                "Give an op with its options, `conv2d --dtype float16`, or `run SCRIPT`.");
  }
  if (traces_nothing(words[0])) {
    throw Error(ExitStatus::usage, fmt::format("the command `{}` traces nothing", line),
                "Give an op with its options, `conv2d --dtype float16`, or `run SCRIPT`.");
  }
  try {
    const OutputToError guard;
    if (words[0] == "run") return trace_run_command(words);
    std::vector<Trace> traces;
    traces.push_back(trace_op_command(words));
    return traces;
  } catch (const HelpAsked&) {  // --help, --version
    throw Error(ExitStatus::usage,
                fmt::format("the command `{}` prints help and traces nothing", line),
                "Omit that option.");
  } catch (const WrongUsage& wrong) {
    throw Error(ExitStatus::usage, fmt::format("in the command `{}`: {}", line, wrong.what()),
                "The command takes only the options that select the traced call. Options for the "
                "result, such as --format, --output and --trace, belong outside of the quotes.");
  }
}

}  // namespace optrace

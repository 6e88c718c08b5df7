#include <algorithm>
#include <cerrno>
#include <csignal>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/files/mapped_file.h"
#include "platform/process/interrupt.h"
#include "platform/programs.h"
#include "platform/text/printable_text.h"
#include "src/command_line/command_description.h"
#include "src/command_line/command_line.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/commands/meant_words.h"
#include "src/completion/completion.h"
#include "src/completion/index_names.h"
#include "src/terminal/end_on_signal.h"
#include "src/terminal/pager.h"
#include "src/terminal/standard_output.h"

namespace {

using optrace::Error;
using optrace::ExitStatus;
using optrace::printable;

/// Opens closed standard descriptors. Otherwise the next file opened would get the number and
/// receive text meant for the terminal. Each is opened in the wrong direction, so that its use
/// still fails. With `for_us_alone`, a program that is run finds it closed, as it was.
void keep_standard_descriptors(bool for_us_alone) {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(number, F_GETFD) >= 0 || errno != EBADF) continue;
    const int mode = number == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    (void)::open("/dev/null", mode | (for_us_alone ? O_CLOEXEC : 0));
  }
}

int report(const Error& error) {
  optrace::write_message(error.what(), error.remedy());
  return static_cast<int>(error.status());
}

/// Returns the exit status that tells which signal interrupted the command.
int with_signal(int status) {
  const int signal = optrace::InterruptGuard::signal();
  return status == static_cast<int>(ExitStatus::interrupted) && signal != 0
             ? optrace::kSignalled + signal
             : status;
}

/// Runs `optrace __complete WORDS...`, which completion scripts call, and `optrace __describe`, of
/// which the man page is made. They are not for users. Returns false for other words.
bool run_hidden_command(const std::vector<std::string>& words) {
  if (words.empty() || (words[0] != "__describe" && words[0] != "__complete")) return false;
  const optrace::CommandDescription program = optrace::describe(optrace::optrace_command());
  optrace::write_standard_output(
      words[0] == "__describe"
          ? to_json(program)
          : to_lines(complete(program, std::span(words).subspan(1), optrace::IndexNames())));
  return true;
}

int run(int argument_count, char** arguments) {
  const std::vector<std::string> words(arguments + std::min(argument_count, 1),
                                       arguments + argument_count);
  if (run_hidden_command(words)) return static_cast<int>(ExitStatus::done);
  try {
    optrace::run_command_line(optrace::optrace_command(), words);
  } catch (const optrace::HelpAsked& asked) {  // --help, --version
    optrace::write_answer(asked.text());
  } catch (const optrace::CommandEnded& ended) {
    return ended.status();
  } catch (const optrace::WrongUsage& wrong) {
    const std::string meant = words.empty() ? std::string() : optrace::command_meant(words[0]);
    if (!meant.empty())
      return report({ExitStatus::usage, fmt::format("'{}' is not a command", printable(words[0])),
                     fmt::format("Did you mean `optrace {}`?", meant)});
    const std::string option = optrace::option_meant(wrong);
    return report({ExitStatus::usage, wrong.what(),
                   option.empty() ? "See `optrace --help`." : printable(option)});
  }
  return static_cast<int>(ExitStatus::done);
}

int answer(int argument_count, char** arguments) {
  try {
    return run(argument_count, arguments);
  } catch (const Error& error) {
    return report(error);
  } catch (const std::bad_alloc&) {
    return report({ExitStatus::failed, "out of memory", "Close some programs and try again."});
  } catch (const std::exception& error) {
    return report({ExitStatus::failed, error.what(), "Report this error with this line."});
  }
}

}  // namespace

int optrace::command_main(int argument_count, char** arguments) {
  const bool runs_program = argument_count > 1 && std::string_view(arguments[1]) == "run";
  keep_standard_descriptors(runs_program);
  const optrace::TruncationGuard guard;
  const optrace::EndOnSignal ends;
  std::signal(SIGPIPE, SIG_IGN);  // write() fails with EPIPE instead, which is handled there.
  return with_signal(answer(argument_count, arguments));
}

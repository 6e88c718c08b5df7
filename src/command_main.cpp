#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/files/mapped_file.h"
#include "platform/programs.h"
#include "platform/text/printable_text.h"
#include "src/commands/command.h"
#include "src/commands/explain_command.h"
#include "src/commands/run_command.h"
#include "src/commands/tensors_command.h"
#include "src/terminal/pager.h"
#include "src/terminal/standard_output.h"

namespace {

using optrace::Command;
using optrace::Error;
using optrace::ExitStatus;
using optrace::printable;

constexpr const char* kExamples = R"(Examples:
  optrace conv2d                          trace torch.nn.Conv2d
  optrace linear --backward               and its backward pass
  optrace aten::add.Tensor --format json  output for programs
  optrace softmax --trace softmax.trace   save the trace; later:
  optrace report softmax.trace
  optrace run train.py --epochs 1         trace a whole program
  optrace attach 4711 --duration 5        trace a running process

Exit status: 0 success, 1 a comparison found differences, a rule does not hold or something
essential is missing, 2 wrong usage, 3 tracing failed, 130 interrupted.)";

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

int run(int argument_count, char** arguments) {
  Command app("optrace", "Shows what runs below a PyTorch call, on the release wheel.");
  app.add_version(std::string("optrace ") + OPTRACE_VERSION);
  app.footer(kExamples);
  app.require_subcommands(0, 1);
  app.option_width(34);
  optrace::add_op_command(app);
  optrace::add_attach_command(app);
  optrace::add_locate_command(app);
  const std::span<char* const> all(arguments,
                                   static_cast<std::size_t>(std::max(argument_count, 0)));
  // The arguments that are not those of a program.
  std::size_t own = optrace::add_explain_command(app, all);
  optrace::add_layers_command(app);
  optrace::add_report_command(app);
  optrace::add_merge_command(app);
  optrace::add_compare_command(app);
  optrace::add_check_command(app);
  optrace::add_findings_command(app);
  optrace::add_source_command(app);
  optrace::add_cache_command(app);
  optrace::add_doctor_command(app);
  optrace::add_lsp_command(app);
  optrace::add_mcp_command(app);
  optrace::add_completions_command(app);
  own = std::min(own, optrace::add_run_command(app, all));
  own = std::min(own, optrace::add_tensors_command(app, all));
  if (optrace::run_hidden_command(app, all)) return static_cast<int>(ExitStatus::done);
  try {
    app.parse(all.first(own));
  } catch (const optrace::HelpAsked& asked) {  // --help, --version
    optrace::write_answer(asked.text());
  } catch (const optrace::CommandEnded& ended) {
    return ended.status();
  } catch (const optrace::WrongUsage& wrong) {
    const std::string meant =
        argument_count > 1 ? optrace::subcommand_meant(app, arguments[1]) : std::string();
    if (!meant.empty())
      return report({ExitStatus::usage,
                     fmt::format("'{}' is not a command", printable(arguments[1])),
                     fmt::format("Did you mean `optrace {}`?", meant)});
    const std::string option = optrace::option_meant(app);
    return report({ExitStatus::usage, wrong.what(),
                   option.empty() ? "See `optrace --help`." : printable(option)});
  }
  return static_cast<int>(ExitStatus::done);
}

}  // namespace

int optrace::command_main(int argument_count, char** arguments) {
  const bool runs_program = argument_count > 1 && std::string_view(arguments[1]) == "run";
  keep_standard_descriptors(runs_program);
  const optrace::TruncationGuard guard;
  std::signal(SIGPIPE, SIG_IGN);  // write() fails with EPIPE instead, which is handled there.
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

#include <string>
#include <utility>
#include <vector>

#include "platform/error.h"
#include "platform/process/interrupt.h"
#include "present/progress_display.h"
#include "src/commands/command.h"
#include "src/commands/commands.h"
#include "src/doctor/doctor_checks.h"
#include "src/doctor/doctor_output.h"
#include "src/options/common_options.h"
#include "src/terminal/command_output.h"

namespace optrace {
namespace {

struct DoctorOptions : AnswerOptions {
  std::string python;
};

void append(std::vector<DoctorCheck>& checks, std::vector<DoctorCheck> more) {
  for (DoctorCheck& check : more) checks.push_back(std::move(check));
}

// What depends on torch is left out if there is none.
std::vector<DoctorCheck> examine(const DoctorOptions& options) {
  const InterruptGuard guard;
  ProgressDisplay display;
  const DoctorProgress progress = [&display](std::string_view step) { display.show_step(step); };
  std::vector<DoctorCheck> checks{check_installation(std::string(optrace_command().version))};
  FoundPython python = check_python(options.python);
  checks.push_back(std::move(python.check));
  FoundTorch torch;
  if (python.choice) {
    progress("looking for torch");
    torch = check_torch(*python.choice);
    checks.push_back(std::move(torch.check));
  }
  checks.push_back(check_compiler());
  if (python.choice && torch.torch) {
    checks.push_back(check_index(options.python));
    progress("reading torch's libraries");
    checks.push_back(check_symbols(*torch.torch));
    checks.push_back(test_op_records(*torch.torch, progress));
    append(checks, test_tracing(*python.choice, progress));
    checks.push_back(test_attach(*python.choice, progress));
    progress("looking for CUDA");
    checks.push_back(check_dry_run(*torch.torch));
    checks.push_back(check_gpu(*torch.torch, progress));
  }
  append(checks, check_permissions());
  checks.push_back(check_cache());
  checks.push_back(check_terminal());
  InterruptGuard::throw_if_interrupted();
  return checks;
}

void run(const DoctorOptions& options) {
  CommandOutput output(options.file);
  const std::vector<DoctorCheck> checks = examine(options);
  output.write_whole(options.format == "json" ? to_json(checks) : to_text(checks, options.style()));
  output.commit();
  if (!is_usable(checks)) throw CommandEnded(ExitStatus::differs);
}

OptionRows option_rows(DoctorOptions& options) {
  return {
      python_row(options.python),
      text_or_json_rows(options.format, "optrace.doctor/1"),
      output_file_row(options.file),
      terminal_rows(options.terminal),
  };
}

}  // namespace

CommandBody doctor_command() {
  return command_body<DoctorOptions>(option_rows, run);
}

}  // namespace optrace

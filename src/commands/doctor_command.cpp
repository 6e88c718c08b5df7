#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "platform/error.h"
#include "platform/process/interrupt.h"
#include "present/progress_display.h"
#include "src/commands/command.h"
#include "src/doctor/build_checks.h"
#include "src/doctor/doctor_output.h"
#include "src/doctor/system_checks.h"
#include "src/doctor/torch_checks.h"
#include "src/doctor/tracing_tests.h"
#include "src/options/common_options.h"
#include "src/terminal/command_output.h"
#include "src/terminal/terminal.h"

namespace optrace {
namespace {

struct DoctorOptions {
  std::string python;
  std::string format = "text";
  std::string file;
  TerminalOptions terminal;
};

void append(std::vector<DoctorCheck>& checks, std::vector<DoctorCheck> more) {
  for (DoctorCheck& check : more) checks.push_back(std::move(check));
}

// What depends on torch is left out if there is none.
std::vector<DoctorCheck> examine(const DoctorOptions& options, const std::string& version) {
  ProgressDisplay display;
  const DoctorProgress progress = [&display](std::string_view step) { display.show_step(step); };
  std::vector<DoctorCheck> checks{check_installation(version)};
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
  return checks;
}

void run(const DoctorOptions& options, const std::string& version) {
  CommandOutput output(options.file);
  const InterruptGuard guard;
  const std::vector<DoctorCheck> checks = examine(options, version);
  const OutputTarget target = options.file.empty() ? standard_output() : OutputTarget{};
  output.write_whole(options.format == "json"
                         ? to_json(checks)
                         : to_text(checks, style_for(options.terminal, target)));
  output.commit();
  if (!is_usable(checks)) throw CommandEnded(ExitStatus::differs);
}

}  // namespace

void add_doctor_command(Command& app) {
  const auto options = std::make_shared<DoctorOptions>();
  Command& command =
      app.add_subcommand("doctor", "Check what optrace needs: what was found, and what is missing");
  command.footer(
      "Examples:\n"
      "  optrace doctor\n"
      "  optrace doctor --python .venv/bin/python --format json\n"
      "Places and removes probes, traces an op, and attaches to a process of its own, which takes\n"
      "about ten seconds. Exit status: 1 if something essential is missing.");
  command.add_option("--python", options->python, "The Python that has torch").type_name("PATH");
  add_text_or_json_options(command, options->format, "optrace.doctor/1");
  add_output_file_option(command, options->file);
  add_terminal_options(command, options->terminal);
  command.callback([&app, options] { run(*options, app.version()); });
}

}  // namespace optrace

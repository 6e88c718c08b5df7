#include "src/commands/source/explain_program.h"

#include <cstdint>
#include <utility>

#include "platform/error.h"
#include "report/formats/compiled_output.h"
#include "report/merge/merge.h"
#include "src/commands/command.h"
#include "src/terminal/command_output.h"
#include "src/terminal/standard_output.h"
#include "tracer/launch/program_tracer.h"

namespace optrace {

void explain_program(const ProgramExplanation& options) {
  CommandOutput output(options.answer.file);
  ProgramRequest request;
  request.only_compilations = true;
  ProgramResult result =
      examine_program(options.program, std::move(request), "optrace explain --compiled");
  Trace trace = examined_trace(result, {.unknown = "what torch.compile did",
                                        .without = "so torch.compile compiled nothing",
                                        .remedy = "Give a program that uses torch.compile."});
  if (const int status = exit_status_of(result); status != 0)
    trace.meta.exit_status = static_cast<std::uint64_t>(status);
  const Report report = merge(trace, nullptr, {});
  if (result.had_children && report.compilations.empty())
    write_message("the program's own process compiled nothing", kOtherProcesses);
  output.write_whole(options.answer.format == "json"
                         ? compiled_json(report)
                         : compiled_text(report, options.answer.style()));
  output.commit();
  if (const ExitStatus status = status_after(result); status != ExitStatus::done)
    throw CommandEnded(status);
}

}  // namespace optrace

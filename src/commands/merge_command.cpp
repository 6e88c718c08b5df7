#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "platform/files/output_file.h"
#include "platform/process/interrupt.h"
#include "src/commands/command.h"
#include "src/commands/job_traces.h"
#include "tracer/trace/trace.h"

namespace optrace {

void add_merge_command(Command& app) {
  struct Options {
    std::vector<std::string> traces;
    std::string output;
  };
  const auto options = std::make_shared<Options>();
  Command& command =
      app.add_subcommand("merge", "Merge the traces of a job's processes into one trace");
  command.footer(
      "Examples:\n"
      "  optrace merge job.rank*.trace -o job.trace     one trace of all ranks\n"
      "  optrace report job.trace                       its tree, with the ranks that differ\n"
      "  optrace merge node0.trace node1.trace -o job.trace     merged traces can be merged again\n"
      "\n"
      "The result does not depend on the order or the grouping of the traces.");
  command
      .add_positional(
          "TRACE", options->traces,
          "Files written by --trace FILE or by `optrace merge`, of\nthe processes of one "
          "job")
      .required();
  command.add_option("-o,--output", options->output, "The merged trace")
      .required()
      .type_name("FILE");
  command.callback([options] {
    {
      const OutputFile trial(options->output);
    }
    const InterruptGuard guard;
    write_trace(merge_trace_files(options->traces), options->output);
  });
}

}  // namespace optrace

#include <string>
#include <vector>

#include "platform/files/output_file.h"
#include "src/commands/command.h"
#include "src/commands/reports/job_traces.h"
#include "tracer/trace/trace.h"

namespace optrace {
namespace {

struct MergeCommandOptions {
  std::vector<std::string> traces;
  std::string output;
};

void run(const MergeCommandOptions& options) {
  {
    const OutputFile trial(options.output);
  }
  write_trace(merge_trace_files(options.traces), options.output);
}

OptionRows option_rows(MergeCommandOptions& options) {
  return {
      {"TRACE", "",
       "Files written by --trace FILE or by `optrace merge`, of\nthe processes of one job",
       &options.traces, kRequired},
      {"-o,--output", "FILE", "The merged trace", &options.output, kRequired},
  };
}

}  // namespace

CommandBody merge_command() {
  return command_body<MergeCommandOptions>(option_rows, run);
}

}  // namespace optrace

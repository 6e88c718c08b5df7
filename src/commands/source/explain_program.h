#pragma once

#include "src/inputs/program_to_run.h"
#include "src/options/common_options.h"

namespace optrace {

/// What `optrace explain --compiled` is asked for.
struct ProgramExplanation {
  ExaminedProgram program;
  AnswerOptions answer;
};

/// Runs the program without probes, and writes what torch.compile made of it. The program's
/// standard output goes to standard error. Throws Error(usage) for a program that can't be run,
/// Error(failed) if nothing is known about its compilations, and CommandEnded after an answer
/// about a program that failed.
void explain_program(const ProgramExplanation& options);

}  // namespace optrace

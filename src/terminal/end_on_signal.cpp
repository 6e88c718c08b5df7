#include "src/terminal/end_on_signal.h"

#include <string_view>

#include <unistd.h>

#include "platform/error.h"
#include "platform/files/output_file.h"
#include "platform/files/private_folder.h"
#include "platform/process/child_process.h"

namespace optrace {
namespace {

void write_now(std::string_view text) {
  (void)!::write(STDERR_FILENO, text.data(), text.size());
}

// Async-signal-safe calls only.
extern "C" void end_process(int signal) {
  OutputFile::remove_unfinished();
  ChildProcess::kill_groups();
  PrivateFolder::remove_all();
  if (::isatty(STDERR_FILENO) != 0) write_now("\n");  // Below a line of progress.
  write_now("optrace: interrupted\n");
  write_now(InterruptGuard::kRemedy);
  write_now("\n");
  ::_exit(kSignalled + signal);
}

}  // namespace

EndOnSignal::EndOnSignal() : handled_(end_process) {}

}  // namespace optrace

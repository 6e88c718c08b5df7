#include "src/terminal/command_output.h"

#include "platform/text/printable_text.h"
#include "src/terminal/pager.h"
#include "src/terminal/standard_output.h"

namespace optrace {

CommandOutput::CommandOutput(const std::string& file) {
  if (file.empty())
    require_standard_output();
  else
    file_.emplace(file);
}

bool CommandOutput::write(std::string_view text) {
  if (!file_) return write_standard_output(text);
  file_->write(printable_output(text));
  return true;
}

void CommandOutput::write_whole(std::string_view text) {
  if (file_)
    write(text);
  else
    write_answer(text);
}

void CommandOutput::write_commands(std::string_view text) {
  if (file_)
    file_->write(text);
  else
    optrace::write_commands(text);
}

void CommandOutput::commit() {
  if (file_) file_->commit();
}

}  // namespace optrace

#include "src/destination.h"

#include "src/standard_output.h"

namespace optrace {

Destination::Destination(const std::string& file) {
  if (file.empty())
    require_standard_output();
  else
    file_.emplace(file);
}

bool Destination::write(std::string_view text) {
  if (!file_) return write_standard_output(text);
  file_->write(text);
  return true;
}

void Destination::commit() {
  if (file_) file_->commit();
}

}  // namespace optrace

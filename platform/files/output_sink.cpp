#include "platform/files/output_sink.h"

#include <iterator>

#include <fmt/format.h>

namespace optrace {

void OutputSink::print_formatted(fmt::string_view format, fmt::format_args arguments) {
  fmt::memory_buffer made;
  fmt::vformat_to(std::back_inserter(made), format, arguments);
  write({made.data(), made.size()});
}

}  // namespace optrace

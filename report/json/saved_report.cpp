#include "report/json/saved_report.h"

#include <fstream>
#include <string_view>
#include <system_error>

#include <fmt/core.h>

#include "platform/error.h"
#include "platform/files/mapped_file.h"
#include "platform/text/printable_text.h"

namespace optrace {

bool is_report_file(const std::filesystem::path& path) {
  // Opening something else, such as a FIFO, can block until another process writes to it.
  if (std::error_code ignored; !std::filesystem::is_regular_file(path, ignored)) return false;
  std::ifstream stream(path, std::ios::binary);
  char first = 0;
  return stream.get(first) && first == '{';
}

Report read_report(const std::filesystem::path& path) {
  const MappedFile file(path, MappedFile::Trust::none);  // It may change during the read.
  const auto bytes = file.bytes();
  Report report;
  try {
    static_cast<WrittenReport&>(report) =
        parse_report(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  } catch (const ReportError& error) {
    throw Error(ExitStatus::usage,
                fmt::format("{} is not a report: {}", path.string(), printable(error.what())),
                "Give a file that `--format json -o FILE` or `--trace FILE` wrote.");
  }
  return report;
}

}  // namespace optrace

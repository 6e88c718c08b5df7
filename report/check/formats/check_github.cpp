#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "platform/text/printable_text.h"
#include "report/check/formats/check_messages.h"
#include "report/check/formats/check_output.h"

namespace optrace {
namespace {

using Status = CheckResult::Status;

/// Escapes text for a workflow command of GitHub's runner (actions/toolkit,
/// packages/core/src/command.ts).
std::string command_text(std::string_view text, bool property) {
  std::string escaped;
  for (const char c : printable(text)) {
    const bool special = c == '%' || (property && (c == ':' || c == ','));
    escaped += special ? fmt::format("%{:02X}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return escaped;
}

}  // namespace

std::string to_github(const std::vector<CheckResult>& results) {
  std::string text;
  for (const CheckResult& result : results) {
    if (result.status == Status::passed) continue;
    for (const CheckPlace& place : annotated(result)) {
      std::string properties = "title=" + command_text(result.rule.name, true);
      if (!place.file.empty()) {
        properties += ",file=" + command_text(place.file, true);
        if (place.line != 0) properties += fmt::format(",line={}", place.line);
        if (place.range)
          properties += fmt::format(",endLine={},col={},endColumn={}", place.range->end_line,
                                    place.range->column, place.range->end_column);
      }
      text += fmt::format("::error {}::{}", properties,
                          command_text(sentence(result) + share_of(place, result), false));
      if (!result.path.empty()) text += "%0A" + command_text(call_path(result), false);
      text += '\n';
    }
  }
  text += fmt::format("{} of {} rules passed\n", count(results, Status::passed), results.size());
  return text;
}

}  // namespace optrace

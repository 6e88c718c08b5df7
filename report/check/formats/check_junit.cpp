#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "present/markup_text.h"
#include "report/check/formats/check_messages.h"
#include "report/check/formats/check_output.h"

namespace optrace {
namespace {

using Status = CheckResult::Status;

}  // namespace

std::string to_junit(const std::vector<CheckResult>& results) {
  const std::string counts =
      fmt::format(R"(tests="{}" failures="{}" errors="{}")", results.size(),
                  count(results, Status::failed), count(results, Status::error));
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"optrace check\" {0}>\n"
      " <testsuite name=\"optrace check\" {0}>\n",
      counts);
  for (const CheckResult& result : results) {
    text += fmt::format(R"(  <testcase classname="optrace.check" name="{}")",
                        markup_text(result.rule.name));
    if (!result.rule.file.empty())
      text +=
          fmt::format(R"( file="{}" line="{}")", markup_text(result.rule.file), result.rule.line);
    if (result.status == Status::passed) {
      text += "/>\n";
      continue;
    }
    const std::string_view kind = result.status == Status::failed ? "failure" : "error";
    text +=
        fmt::format(">\n   <{} message=\"{}\" type=\"{}\">", kind, markup_text(result.found), kind);
    text += markup_text("expected: " + result.rule.text) + "\n" + markup_text(sentence(result));
    for (const CheckStep& step : result.path)
      text += "\n" + markup_text(step.name + place_of(step));
    for (const std::string& line : lines_of_places(result, result.places.size()))
      text += "\n" + markup_text(line);
    text += fmt::format("</{}>\n  </testcase>\n", kind);
  }
  return text + " </testsuite>\n</testsuites>\n";
}

}  // namespace optrace

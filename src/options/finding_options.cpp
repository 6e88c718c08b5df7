#include "src/options/finding_options.h"

#include <string>

#include "report/check/finding_name.h"

namespace optrace {

OptionRow ignore_row(FindingOptions& options) {
  const auto problem_of = [](const std::string& name) {
    require_finding_rule(name);
    return std::string();
  };
  return {"--ignore",
          "NAME",
          "Report no findings of this rule; may be repeated\n(`optrace findings` lists the rules)",
          &options.ignored,
          {.allowed = problem_of, .several = SeveralValues::each_time_unmarked}};
}

}  // namespace optrace

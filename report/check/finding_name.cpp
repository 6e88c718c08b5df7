#include "report/check/finding_name.h"

#include <algorithm>
#include <vector>

#include <fmt/core.h>

#include "lookup/locate/op_spelling.h"
#include "platform/error.h"
#include "platform/text/joined.h"
#include "platform/text/printable_text.h"
#include "report/findings/finding_rules.h"

namespace optrace {

void require_finding_rule(const std::string& name) {
  constexpr std::size_t kSuggested = 2;
  std::vector<std::string> names;
  for (const FindingRule& rule : finding_rules()) names.emplace_back(rule.name);
  if (std::ranges::find(names, name) != names.end()) return;
  const std::vector<std::string> near = near_names(name, names, kSuggested);
  throw Error(ExitStatus::usage, fmt::format("there is no rule for findings '{}'", printable(name)),
              near.empty() ? fmt::format("The rules are: {}.", joined(names, ", "))
                           : fmt::format("Did you mean {}? `optrace findings` lists the rules.",
                                         joined(near, " or ")));
}

}  // namespace optrace

#include "src/options/decision_options.h"

#include "report/details/known_results.h"

namespace optrace {

std::uint32_t DecisionOptions::returns_per_site() const {
  return which == "first" ? kFirstReturns : 0;
}

OptionRow decisions_row(DecisionOptions& options) {
  return {"--decisions",
          "WHICH",
          "Record what functions such as use_cudnn returned: at the first\n64 calls of each place "
          "in the code, at all, or none",
          &options.which,
          {.allowed = OneOf{{"first", "all", "none"}}, .usual = options.which}};
}

}  // namespace optrace

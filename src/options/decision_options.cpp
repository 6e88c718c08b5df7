#include "src/options/decision_options.h"

#include "report/details/known_results.h"
#include "src/options/common_options.h"

namespace optrace {

std::uint32_t DecisionOptions::returns_per_site() const {
  return which == "first" ? kFirstReturns : 0;
}

void add_decision_options(Command& command, DecisionOptions& options) {
  command
      .add_option("--decisions", options.which,
                  "Record what functions such as use_cudnn returned: at the first\n64 calls of "
                  "each place in the code, at all, or none")
      .one_of({"first", "all", "none"})
      .type_name("WHICH")
      .show_default();
}

}  // namespace optrace

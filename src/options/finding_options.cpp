#include "src/options/finding_options.h"

#include <string>
#include <vector>

#include "report/check/finding_name.h"

namespace optrace {

void add_ignore_option(Command& app, FindingOptions& options) {
  app.add_option(
         "--ignore",
         [&options](const std::vector<std::string>& names) {
           for (const std::string& name : names) {
             require_finding_rule(name);
             options.ignored.insert(name);
           }
         },
         "Report no findings of this rule; may be repeated\n(`optrace findings` lists the rules)")
      .repeated()
      .type_name("NAME");
}

}  // namespace optrace

#include "src/options/finding_options.h"

#include <string>
#include <vector>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "report/check/finding_name.h"

namespace optrace {

void add_ignore_option(CLI::App& app, FindingOptions& options) {
  app.add_option_function<std::vector<std::string>>(
         "--ignore",
         [&options](const std::vector<std::string>& names) {
           for (const std::string& name : names) {
             require_finding_rule(name);
             options.ignored.insert(name);
           }
         },
         "Report no findings of this rule; may be repeated\n(`optrace findings` lists the rules)")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NAME");
}

}  // namespace optrace

#include "src/dry_run_options.h"

#include <fmt/format.h>

#include "src/command.h"

namespace optrace {

EmulatedPart DryRunOptions::emulated_part() const {
  return {part.empty() ? usual_part() : part, devices};
}

void add_dry_run_options(CLI::App& app, DryRunOptions& options) {
  const std::vector<std::string> parts = emulated_parts();
  app.add_flag(fmt::format("--dry-run{{{}}}", usual_part()), options.part,
               fmt::format("Emulate a GPU, {} unless another is named with =:\n{}", usual_part(),
                           fmt::join(parts, " ")))
      ->check(one_of({parts.begin(), parts.end()}))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->type_name("");
  app.add_option("--devices", options.devices, "How many GPUs a dry run emulates")
      ->check(CLI::Range(1U, 64U).description(""))
      ->type_name("N")
      ->capture_default_str();
}

}  // namespace optrace

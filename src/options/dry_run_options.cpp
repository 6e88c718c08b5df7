#include "src/options/dry_run_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace optrace {

EmulatedDevices DryRunOptions::emulated_devices() const {
  return {gpu_model.empty() ? usual_gpu_model() : gpu_model, devices};
}

void add_dry_run_options(CLI::App& app, DryRunOptions& options) {
  app.add_flag(fmt::format("--dry-run{{{}}}", usual_gpu_model()), options.gpu_model,
               fmt::format("Emulate a GPU: {}, or the architecture named with =:\n{}\nor a product "
                           "such as rtx-4090 or a100-40gb. Settings follow: sm_80,sms=108",
                           usual_gpu_model(), fmt::join(emulated_architectures(), " ")))
      ->each([](const std::string& model) { require_gpu_model(model); })
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->type_name("");
  app.add_option("--devices", options.devices, "Number of GPUs that a dry run emulates")
      ->check(CLI::Range(1U, 64U).description(""))
      ->type_name("N")
      ->capture_default_str();
}

}  // namespace optrace

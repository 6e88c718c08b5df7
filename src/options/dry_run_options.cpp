#include "src/options/dry_run_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace optrace {

EmulatedDevices DryRunOptions::emulated_devices() const {
  return {gpu_model.empty() ? usual_gpu_model() : gpu_model, devices};
}

void add_dry_run_options(Command& app, DryRunOptions& options) {
  app.add_flag("--dry-run", options.gpu_model, usual_gpu_model(),
               fmt::format("Emulate a GPU: {}, or the architecture named with =:\n{}\nor a product "
                           "such as rtx-4090 or a100-40gb. Settings follow: sm_80,sms=108",
                           usual_gpu_model(), fmt::join(emulated_architectures(), " ")))
      .check([](const std::string& model) {
        require_gpu_model(model);
        return std::string();
      });
  app.add_option("--devices", options.devices, "Number of GPUs that a dry run emulates")
      .between(1, 64)
      .type_name("N")
      .show_default();
}

}  // namespace optrace

#include "src/options/dry_run_options.h"

#include <fmt/core.h>

#include "platform/text/joined.h"

namespace optrace {

EmulatedDevices DryRunOptions::emulated_devices() const {
  return {gpu_model.empty() ? usual_gpu_model() : gpu_model, devices.value_or(1)};
}

OptionRow dry_run_rows(DryRunOptions& options) {
  const auto problem_of = [](const std::string& model) {
    require_gpu_model(model);
    return std::string();
  };
  return OptionRows{
      {"--dry-run",
       "",
       fmt::format("Emulate a GPU: {}, or the architecture named with =:\n{}\nor a product such as "
                   "rtx-4090 or a100-40gb. Settings follow: sm_80,sms=108",
                   usual_gpu_model(), joined(emulated_architectures(), " ")),
       &options.gpu_model,
       {.allowed = problem_of, .implied = usual_gpu_model()}},
      {"--devices",
       "N",
       "Number of GPUs that a dry run emulates",
       &options.devices,
       {.allowed = Between<int>(1, 64), .usual = "1"}},
  };
}

}  // namespace optrace

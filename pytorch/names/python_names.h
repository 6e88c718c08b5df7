#pragma once

#include <array>
#include <string_view>

namespace optrace {

/// The module in front of its names: `torch.float32`.
inline constexpr std::string_view kTorchModule = "torch.";

/// A namespace of Python that users write without `torch`, or as PyTorch's documentation imports
/// it.
struct PythonNamespace {
  std::string_view written;
  std::string_view full;
};

inline constexpr auto kPythonNamespaces = std::to_array<PythonNamespace>({
    {"nn.", "torch.nn."},
    {"F.", "torch.nn.functional."},
    {"optim.", "torch.optim."},
    {"Tensor.", "torch.Tensor."},
    {kTorchModule, kTorchModule},
});

/// Returns `float32` for `torch.float32` and for `float32`.
constexpr std::string_view without_torch(std::string_view name) {
  return name.substr(name.starts_with(kTorchModule) ? kTorchModule.size() : 0);
}

}  // namespace optrace

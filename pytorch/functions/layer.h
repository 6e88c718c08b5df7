#pragma once

// A part of the installed report reader, so it is C++17.

#include <array>
#include <cstddef>
#include <string_view>

namespace optrace {

/// The layer of PyTorch's stack that a frame belongs to.
enum class Layer {
  python,
  binding,
  dispatcher,
  autograd,
  kernel,
  library,
  device,
  runtime,
  compiler  ///< torch.compile while it compiles; what it compiled belongs to the other layers.
};

/// The names used in JSON, in the order of Layer.
inline constexpr std::array<std::string_view, 9> kLayerNames = {"python",   "binding", "dispatcher",
                                                                "autograd", "kernel",  "library",
                                                                "device",   "runtime", "compiler"};
inline constexpr std::size_t kLayers = kLayerNames.size();

/// Returns the name used in the JSON: "python", "binding", ...
constexpr std::string_view name_of(Layer layer) {
  return kLayerNames[static_cast<std::size_t>(layer)];
}

/// Returns true for layers whose frames are Python functions.
constexpr bool is_python(Layer layer) {
  return layer == Layer::python || layer == Layer::compiler;
}

}  // namespace optrace

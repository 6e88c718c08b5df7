#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "gpu/generator/prototype.h"
#include "gpu/libraries/device_families.h"

namespace optrace {

/// Behaviour of a generated function.
enum class CallBehaviour {
  unimplemented,  ///< Reports that it is not implemented and fails.
  create,         ///< Creates a handle.
  destroy,        ///< Destroys a handle made by create.
  /// Returns the size in bytes (or elements) of the workspace that the emulation needs.
  size,
  /// Records scalar and enum arguments. Outputs are in device memory and become zeros.
  compute,
  /// The emulated device implements it; the calls of the real function are recorded.
  implemented,
  set,    ///< Changes settings that only the library itself would use.
  value,  ///< Returns the value of an expression.
};

struct CallRule {
  std::string_view family;
  std::string_view pattern;  ///< Regular expression (std::regex) for the whole name.
  CallBehaviour behaviour;
  /// size: names of the parameters to set; compute: names of the parameters that the host may read,
  /// to be set to zero (both as std::regex). value: a C++ expression of the parameters a0, a1 and
  /// so on, with what DeviceFamily::own_header declares. `emulated` is the namespace
  /// optrace::emulated.
  std::string_view detail{};
  /// compute: the parameter with the number of elements of those; empty: one.
  std::string_view count{};
};

/// Behaviour of a function and the parameters that it applies to.
struct CallDecision {
  CallBehaviour behaviour = CallBehaviour::unimplemented;
  /// Positions of parameters: outputs, or the handle to destroy.
  std::vector<std::size_t> filled{};
  std::string_view value{};
  std::optional<std::size_t> count{};  ///< Position of the parameter with the number of elements.
};

/// Applies the first rule whose name matches and whose required parameters the prototype has.
CallDecision decide(const DeviceFamily& family, const Prototype& prototype);

}  // namespace optrace

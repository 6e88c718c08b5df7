#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "tracer/device_generator/device_families.h"
#include "tracer/device_generator/prototype.h"

namespace optrace {

/// What a generated function does.
enum class CallBehaviour {
  unimplemented,  ///< Says so, and fails.
  create,         ///< Fills a handle.
  destroy,        ///< Takes back a handle that create made.
  size,           ///< Fills the bytes (or elements) of workspace that the emulation needs.
  compute,  ///< Records scalar and enum arguments; outputs are device memory: zeros from then on.
  set,      ///< Changes what only the library itself would look at.
  value,    ///< Returns a plain value.
};

struct CallRule {
  std::string_view family;
  std::string_view pattern;  ///< The whole name, as std::regex has it.
  CallBehaviour behaviour;
  /// size: the names of the parameters to fill; compute: of those that the host may read, to be
  /// zeroed (as std::regex has them). value: the value, in C++.
  std::string_view detail{};
  /// compute: the parameter that says how many elements those have; empty: one.
  std::string_view count{};
};

/// What is to be done, and with which parameters.
struct CallDecision {
  CallBehaviour behaviour = CallBehaviour::unimplemented;
  /// Positions of parameters: outputs, or the handle to destroy.
  std::vector<std::size_t> filled{};
  std::string_view value{};
  std::optional<std::size_t> count{};  ///< The position of the parameter that says how many.
};

/// By the first rule whose name and whose behaviour's needs the prototype fits.
CallDecision decide(const DeviceFamily& family, const Prototype& prototype);

}  // namespace optrace

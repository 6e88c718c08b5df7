#pragma once

// Demangled names of kernels, taken apart.

#include <cstddef>
#include <string_view>
#include <vector>

#include "tracer/emulated_device/device/device.h"

namespace optrace::emulated {

using Text = std::string_view;

/// A type of elements.
struct ElementType {
  Text name;
  std::size_t bytes;
  bool floating;  ///< Its zero has two signs.
};

bool has(Text text, Text part);

bool begins(Text text, Text part);

/// The first type of elements that is named in a text; null if none is.
const ElementType* first_type(Text text);

/// The texts of a list, without the spaces around them.
std::vector<Text> parts_of(Text list);

/// The types of a function's parameters, which its signature ends with.
std::vector<Text> parameters_of(Text signature);

/// The arguments of the template that a type is: of "a::F<float, 1>", "float" and "1".
std::vector<Text> template_arguments(Text type);

/// What follows the first `mark` in a text; empty if it isn't there.
Text after(Text text, Text mark);

}  // namespace optrace::emulated

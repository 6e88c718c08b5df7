#pragma once

// Parser of demangled kernel names.

#include <cstddef>
#include <string_view>
#include <vector>

#include "gpu/emulated/device/device.h"

namespace optrace::emulated {

using Text = std::string_view;

/// An element type.
struct ElementType {
  Text name;
  std::size_t bytes;
  bool floating;  ///< True if its zero has two signs.
};

bool has(Text text, Text part);

bool begins(Text text, Text part);

/// Returns the first element type named in a text, or null.
const ElementType* first_type(Text text);

/// Splits a list and removes the spaces around its parts.
std::vector<Text> parts_of(Text list);

/// Returns the types of a function's parameters, which its signature ends with.
std::vector<Text> parameters_of(Text signature);

/// Returns the arguments of a template type: "float" and "1" for "a::F<float, 1>".
std::vector<Text> template_arguments(Text type);

/// Returns the text after the first `mark`, or an empty text.
Text after(Text text, Text mark);

}  // namespace optrace::emulated

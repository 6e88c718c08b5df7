#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/store/indexed_source.h"
#include "lookup/explain/explain.h"
#include "present/terminal_text.h"

namespace optrace {

/// Colours of what a call path leads through, for TerminalStyle::paint().
inline constexpr std::string_view kOpColour = kYellow;
inline constexpr std::string_view kFunctionColour = kGreen;
inline constexpr std::string_view kLibraryColour = kRed;

/// Returns the source that lines refer to: `PyTorch 2.6.0, the commit of the installed torch`.
std::string source_sentence(const IndexedSource& source);

/// Returns `aten/src/ATen/native/Convolution.cpp:984`, with `~` before an approximate line; only
/// the file if the line is unknown.
std::string place_text(const SourceLocation& location, const IndexedSource& source);

/// Returns `:984`, or `:~984` for an approximate line; empty for line 0.
std::string line_suffix(std::uint32_t line, const std::optional<LineInterval>& approximate,
                        const IndexedSource& source);

/// Returns the op's names in Python: `torch.add`, `Tensor.add`.
std::vector<std::string> python_names(const Explanation& explanation);

/// Returns the other overloads, without their namespace: `add.out`.
std::vector<std::string> other_overloads(const Explanation& explanation);

/// Returns the name of a derivative's node with its key, if that is not the default:
/// `MulBackward0 (AutogradNestedTensor)`.
std::string node_name(const OpFacts::Derivative& derivative);

}  // namespace optrace

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "platform/elf/module_symbols.h"

namespace optrace {

/// Kind of a call that tells its own place in the source.
enum class AnchorKind : std::uint8_t {
  check,         ///< TORCH_CHECK and the checks built on it.
  assertion,     ///< TORCH_INTERNAL_ASSERT and similar.
  error,         ///< Constructs a c10::Error or a class derived from it.
  warning,       ///< TORCH_WARN and similar.
  logging,       ///< LOG, CHECK and similar of c10/util/Logging.h.
  enforcement,   ///< CAFFE_ENFORCE and similar.
  cuda_check,    ///< C10_CUDA_CHECK.
  registration,  ///< TORCH_LIBRARY and TORCH_LIBRARY_IMPL.
};

/// A call in compiled code that passes `__FILE__` and `__LINE__` as constants. The strings live as
/// long as the ModuleSymbols.
struct SourceAnchor {
  std::uint64_t call = 0;      ///< Address of the call instruction, as linked.
  std::uint64_t function = 0;  ///< Address of the function that contains it, not of its cold part.
  AnchorKind kind = AnchorKind::check;
  std::string_view function_name;  ///< `__func__`: unqualified. Empty if it is not known.
  std::string_view file;           ///< As passed: `/pytorch/aten/src/ATen/native/Convolution.cpp`.
  std::uint32_t line = 0;          ///< From 1: the first line of the macro's use.
  std::string_view message;        ///< The literal message or condition; empty if there is none.
};

/// Finds the anchors in a module's code, sorted by address. The compiler may merge calls from
/// several lines into one, which then gives several anchors. Calls whose line or file is not known
/// are left out.
std::vector<SourceAnchor> find_anchors(const ModuleSymbols& module);

}  // namespace optrace

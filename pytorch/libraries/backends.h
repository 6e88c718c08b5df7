#pragma once

#include <string_view>
#include <vector>

namespace optrace {

// What a rule may call a backend: a library, or one of several implementations of an op.

/// Returns true for the name of a backend: `cudnn`, `onednn`, `flash`, ... Case is ignored, here
/// and below.
bool is_backend(std::string_view name);
std::vector<std::string_view> backend_names();

/// Returns true if the backend is one of CUDA's libraries, which work on CUDA tensors only.
bool is_of_cuda(std::string_view backend);

/// Returns true if a function is a part of a backend. `library` is the vendor's name of the library
/// whose interface it belongs to; empty if it belongs to none, or does no work.
bool is_function_of(std::string_view backend, std::string_view function, std::string_view library);

}  // namespace optrace

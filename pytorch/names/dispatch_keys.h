#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace optrace {

/// The backends of c10/core/DispatchKey.h (C10_FORALL_BACKEND_COMPONENTS), lowest priority first.
inline constexpr auto kDispatchBackends = std::to_array<std::string_view>(
    {"CPU", "CUDA", "HIP", "XLA", "MPS", "IPU", "XPU", "HPU", "VE", "Lazy", "MTIA", "PrivateUse1",
     "PrivateUse2", "PrivateUse3", "Meta"});

/// A runtime key, `SparseCPU`, as the dispatcher takes it apart.
struct DispatchKeyParts {
  std::string_view functionality;  ///< `Sparse`; `Dense` for `CPU`.
  std::string_view backend;        ///< `CPU`; empty if all backends share the key.
};

/// Returns the parts of a key. An unknown key is a functionality of its own.
DispatchKeyParts parts_of_dispatch_key(std::string_view key);

/// Returns all runtime keys in the order of c10::DispatchKey, lowest priority first.
const std::vector<std::string>& runtime_dispatch_keys();

/// Returns true for the keys whose kernels are Python functions: those of tensor subclasses, of
/// modes and of torch.compile.
constexpr bool is_python_dispatch_key(std::string_view key) {
  return key == "Python" || key == "PythonTLSSnapshot" || key == "PythonDispatcher" ||
         key == "PreDispatch";
}

/// Returns true for the keys of sparse tensors: `SparseCPU`, `SparseCsrCUDA`.
constexpr bool is_sparse_dispatch_key(std::string_view key) {
  return key.starts_with("Sparse");
}

}  // namespace optrace

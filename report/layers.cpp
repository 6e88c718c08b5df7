#include "report/layers.h"

#include <array>
#include <cstddef>

namespace optrace {
namespace {

constexpr bool kFolded = true;

struct Row {
  std::string_view library;  // Pattern of the library's file name.
  std::string_view name;     // Pattern of the qualified name.
  Layer layer = Layer::runtime;
  bool folded = false;
};

// Where functions live; the first row that matches decides. Names are as in PyTorch's source
// (aten/, c10/, torch/csrc) and in what torchgen and tools/autograd generate.
constexpr auto kRows = std::to_array<Row>({
    // The interpreter and the C libraries: what Python and C++ stand on, not steps of an op.
    {"libpython*", "*", Layer::runtime, kFolded},
    {"python*", "*", Layer::runtime, kFolded},
    {"_ctypes*", "*", Layer::runtime, kFolded},
    {"libffi*", "*", Layer::runtime, kFolded},
    {"libc.so*", "*", Layer::runtime, kFolded},
    {"libpthread*", "*", Layer::runtime, kFolded},
    {"ld-linux*", "*", Layer::runtime, kFolded},
    {"libstdc++*", "*", Layer::runtime, kFolded},
    {"libgcc_s*", "*", Layer::runtime, kFolded},
    {"libgomp*", "*", Layer::runtime, kFolded},
    {"libiomp5*", "*", Layer::runtime, kFolded},
    {"liboptrace*", "*", Layer::runtime, kFolded},

    // Libraries that are files of their own.
    {"libcudnn*", "*", Layer::library},
    {"libcublas*", "*", Layer::library},
    {"libcusolver*", "*", Layer::library},
    {"libcusparse*", "*", Layer::library},
    {"libcufft*", "*", Layer::library},
    {"libcurand*", "*", Layer::library},
    {"libnccl*", "*", Layer::library},
    {"libnvrtc*", "*", Layer::library},
    {"libcudart*", "*", Layer::library},
    {"libcuda.so*", "*", Layer::library},
    {"libmkl*", "*", Layer::library},
    {"libopenblas*", "*", Layer::library},

    // A kernel's host-side stub (`__global__` functions as nvcc compiles them).
    {"*", "__device_stub__*", Layer::device},

    // The dispatcher. `call` and `redispatch` are its steps, the rest carries arguments.
    {"*", "at::_ops::%::call", Layer::dispatcher},
    {"*", "at::_ops::%::redispatch", Layer::dispatcher},
    {"*", "at::_ops::*", Layer::dispatcher, kFolded},
    {"*", "c10::impl::wrap_kernel_functor_unboxed_*", Layer::dispatcher, kFolded},
    {"*", "c10::impl::make_boxed_from_unboxed_functor*", Layer::dispatcher, kFolded},
    {"*", "c10::impl::call_functor_with_args_from_stack*", Layer::dispatcher, kFolded},
    {"*", "c10::impl::BoxedKernelWrapper*", Layer::dispatcher, kFolded},
    {"*", "c10::BoxedKernelWrapper*", Layer::dispatcher, kFolded},
    {"*", "c10::KernelFunction::*", Layer::dispatcher, kFolded},
    {"*", "c10::BoxedKernel::*", Layer::dispatcher, kFolded},
    {"*", "c10::OperatorHandle::*", Layer::dispatcher, kFolded},
    {"*", "c10::Dispatcher::*", Layer::dispatcher},
    {"*", "c10::impl::*", Layer::runtime, kFolded},
    {"*", "c10::detail::*", Layer::runtime, kFolded},
    {"*", "c10::function_ref<*", Layer::runtime, kFolded},

    // Plumbing of the standard library and of pybind11.
    {"*", "std::*", Layer::runtime, kFolded},
    {"*", "__gnu_cxx::*", Layer::runtime, kFolded},
    {"*", "pybind11::*", Layer::binding, kFolded},

    // Autograd (tools/autograd: VariableType, ADInplaceOrView, TraceType, the backward nodes).
    {"*", "torch::autograd::VariableType::*", Layer::autograd},
    {"*", "torch::ADInplaceOrView::*", Layer::autograd},
    {"*", "torch::TraceType::*", Layer::autograd},
    {"*", "torch::autograd::generated::details::*", Layer::autograd},
    {"*", "torch::autograd::Engine::*", Layer::autograd},
    {"*", "torch::autograd::python::PythonEngine::*", Layer::autograd},
    {"*", "torch::autograd::Node::*", Layer::autograd},
    {"*", "torch::autograd::*::apply", Layer::autograd},
    {"*", "torch::autograd::*::operator()", Layer::autograd},

    // Bindings: everything else in libtorch_python.
    {"*", "torch::autograd::THP*", Layer::binding},
    {"*", "THP*", Layer::binding},
    {"libtorch_python*", "torch::*", Layer::binding},
    {"libtorch_python*", "*", Layer::binding},
    {"*", "torch::autograd::*", Layer::autograd},

    // Libraries that are linked into libtorch_cpu or called through its imports.
    {"*", "dnnl_*", Layer::library},
    {"*", "dnnl::*", Layer::library},
    {"*", "ideep::*", Layer::library},
    {"*", "cblas_*", Layer::library},
    {"*", "mkl_*", Layer::library},
    {"*", "MKL_*", Layer::library},
    {"*", "Dfti*", Layer::library},
    {"*", "LAPACKE_*", Layer::library},
    {"*", "fbgemm::*", Layer::library},
    {"*", "xnn_*", Layer::library},
    {"*", "nnp_*", Layer::library},
    {"*", "pytorch_q*", Layer::library},
    {"*", "Sleef_*", Layer::library},
    {"*", "cudnn*", Layer::library},
    {"*", "cublas*", Layer::library},
    {"*", "cusolver*", Layer::library},
    {"*", "cusparse*", Layer::library},
    {"*", "cufft*", Layer::library},
    {"*", "curand*", Layer::library},
    {"*", "nccl*", Layer::library},
    {"*", "cudaLaunch*", Layer::library},
    {"*", "vms*", Layer::library},  // MKL's vector math: vmsSin, vmdExp, ...
    {"*", "vmd*", Layer::library},
    {"*", "vmc*", Layer::library},
    {"*", "vmz*", Layer::library},

    // Kernels: what is registered for an op and a dispatch key, and what it is made of.
    {"*", "at::native::*", Layer::kernel},
    {"*", "at::(anonymous namespace)::*", Layer::kernel},
    {"*", "at::meta::*", Layer::kernel},
    {"*", "at::cpu::*", Layer::kernel},
    {"*", "at::cuda::*", Layer::kernel},
    {"*", "at::sparsecpu::*", Layer::kernel},
    {"*", "at::sparsecsrcpu::*", Layer::kernel},
    {"*", "at::compositeexplicitautograd::*", Layer::kernel},
    {"*", "at::compositeexplicitautogradnonfunctional::*", Layer::kernel},
    {"*", "at::compositeimplicitautograd::*", Layer::kernel},
    {"*", "at::compositeimplicitautogradnestedtensor::*", Layer::kernel},
    {"*", "at::functionalization::*", Layer::kernel},
    {"*", "at::functorch::*", Layer::kernel},
    {"*", "at::autocast::*", Layer::kernel},

    // The public functions of ATen/Functions.h and of Tensor: one line that calls the dispatcher.
    {"*", "at::internal::*", Layer::runtime, kFolded},
    {"*", "at::detail::*", Layer::runtime},
    {"*", "at::parallel_for*", Layer::runtime, kFolded},
    {"*", "at::Tensor::%", Layer::dispatcher},
    {"*", "at::TensorBase::%", Layer::runtime, kFolded},
    {"*", "at::redispatch::%", Layer::dispatcher},
    {"libtorch_cpu*", "at::%", Layer::dispatcher},

    // Fortran's BLAS and LAPACK: sgemm_, dgesv_.
    {"*", "%_", Layer::library},
});

// Python functions that are left out: they look something up, and stand in every module's stack.
constexpr auto kFoldedPython = std::to_array<std::string_view>({
    "torch.nn.modules.module.Module.__getattr__",
});

constexpr std::array<std::string_view, 8> kLayerNames = {
    "python", "binding", "dispatcher", "autograd", "kernel", "library", "device", "runtime"};

struct LibraryRow {
  std::string_view name;  // Pattern of the function's name.
  std::string_view library;
};

constexpr auto kLibraries = std::to_array<LibraryRow>({
    {"dnnl*", "oneDNN"},       {"ideep::*", "oneDNN"},    {"mkl_*", "MKL"},
    {"MKL_*", "MKL"},          {"Dfti*", "MKL"},          {"vms*", "MKL"},
    {"vmd*", "MKL"},           {"vmc*", "MKL"},           {"vmz*", "MKL"},
    {"cblas_*", "BLAS"},       {"fbgemm::*", "FBGEMM"},   {"xnn_*", "XNNPACK"},
    {"nnp_*", "NNPACK"},       {"pytorch_q*", "QNNPACK"}, {"cudnn*", "cuDNN"},
    {"cublasLt*", "cuBLASLt"}, {"cublas*", "cuBLAS"},     {"cusolver*", "cuSOLVER"},
    {"cusparse*", "cuSPARSE"}, {"cufft*", "cuFFT"},       {"curand*", "cuRAND"},
    {"nccl*", "NCCL"},         {"cuda*", "CUDA"},         {"%_", "BLAS/LAPACK"},
});

}  // namespace

bool matches_pattern(std::string_view text, std::string_view pattern) {
  // The last wildcard takes one character more whenever what follows it does not fit; a `%` that
  // can't hands over to the last `*`.
  struct Retry {
    std::size_t pattern_at = std::string_view::npos;
    std::size_t text_at = 0;
  };
  Retry any;
  Retry component;
  std::size_t t = 0;
  std::size_t p = 0;
  while (true) {
    if (p < pattern.size() && pattern[p] == '*') {
      any = {++p, t};
      component = {};
      continue;
    }
    if (p < pattern.size() && pattern[p] == '%') {
      component = {++p, t};
      continue;
    }
    if (t < text.size() && p < pattern.size() && pattern[p] == text[t]) {
      ++t;
      ++p;
      continue;
    }
    if (t == text.size() && p == pattern.size()) return true;
    if (component.pattern_at != std::string_view::npos && component.text_at < text.size() &&
        text[component.text_at] != ':') {
      p = component.pattern_at;
      t = ++component.text_at;
    } else if (any.pattern_at != std::string_view::npos && any.text_at < text.size()) {
      p = any.pattern_at;
      t = ++any.text_at;
      component = {};
    } else {
      return false;
    }
  }
}

std::string_view name_of(Layer layer) {
  return kLayerNames[static_cast<std::size_t>(layer)];
}

Placement place(std::string_view name, std::string_view library) {
  for (const Row& row : kRows)
    if (matches_pattern(library, row.library) && matches_pattern(name, row.name))
      return {row.layer, row.folded};
  return {};
}

Placement place_python(std::string_view name) {
  for (const std::string_view pattern : kFoldedPython)
    if (matches_pattern(name, pattern)) return {Layer::python, kFolded};
  return {Layer::python, false};
}

std::optional<DispatcherStep> dispatcher_step(std::string_view name) {
  constexpr std::string_view kScope = "at::_ops::";
  if (!name.starts_with(kScope)) return std::nullopt;
  name.remove_prefix(kScope.size());
  const std::size_t end = name.find("::");
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view step = name.substr(end + 2);
  if (step != "call" && step != "redispatch") return std::nullopt;
  return DispatcherStep{name.substr(0, end), step == "redispatch"};
}

std::optional<std::string_view> onednn_implementation(std::string_view name) {
  constexpr std::string_view kScope = "dnnl::impl::";
  // dnnl::impl's own `execute` functions hand on to an implementation, which lives in cpu:: or
  // gpu::.
  if (!name.starts_with("dnnl::impl::cpu::") && !name.starts_with("dnnl::impl::gpu::"))
    return std::nullopt;
  const std::size_t end = name.rfind("::execute");
  if (end == std::string_view::npos || end < kScope.size()) return std::nullopt;
  return name.substr(kScope.size(), end - kScope.size());
}

std::string_view library_name(std::string_view name) {
  for (const LibraryRow& row : kLibraries)
    if (matches_pattern(name, row.name)) return row.library;
  return {};
}

}  // namespace optrace

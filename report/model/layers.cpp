#include "report/model/layers.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace optrace {
namespace {

struct Row {
  std::string_view library;  // Pattern of the library's file name.
  std::string_view name;     // Pattern of the qualified name.
  Layer layer = Layer::runtime;
  Shown shown = Shown::leading;
};

constexpr Shown kAlways = Shown::always;
constexpr Shown kLeading = Shown::leading;
constexpr Shown kNever = Shown::never;

// Where functions live; the first row that matches decides. Names are as in PyTorch's source
// (aten/, c10/, torch/csrc) and in what torchgen and tools/autograd generate.
constexpr auto kRows = std::to_array<Row>({
    // The interpreter and the C libraries: what Python and C++ stand on, not steps of an op.
    {"libpython*", "*", Layer::runtime, kNever},
    {"python*", "*", Layer::runtime, kNever},
    {"_ctypes*", "*", Layer::runtime, kNever},
    {"libffi*", "*", Layer::runtime, kNever},
    {"libc.so*", "*", Layer::runtime, kNever},
    {"libpthread*", "*", Layer::runtime, kNever},
    {"ld-linux*", "*", Layer::runtime, kNever},
    {"libstdc++*", "*", Layer::runtime, kNever},
    {"libgcc_s*", "*", Layer::runtime, kNever},
    {"libgomp*", "*", Layer::runtime, kNever},
    {"libiomp5*", "*", Layer::runtime, kNever},
    {"liboptrace*", "*", Layer::runtime, kNever},

    // Libraries that are files of their own.
    {"libcudnn*", "*", Layer::library, kAlways},
    {"libcublas*", "*", Layer::library, kAlways},
    {"libcusolver*", "*", Layer::library, kAlways},
    {"libcusparse*", "*", Layer::library, kAlways},
    {"libcufft*", "*", Layer::library, kAlways},
    {"libcurand*", "*", Layer::library, kAlways},
    {"libnccl*", "*", Layer::library, kAlways},
    {"libnvrtc*", "*", Layer::library, kAlways},
    {"libcudart*", "cudaMalloc*", Layer::library, kNever},
    {"libcudart*", "cudaHostAlloc", Layer::library, kNever},
    {"libcudart*", "cudaSetDevice", Layer::library, kNever},
    {"libcuda.so*", "cuMemCreate", Layer::library, kNever},
    {"libcudart*", "*", Layer::library, kAlways},
    {"libcuda.so*", "*", Layer::library, kAlways},
    {"libmkl*", "*", Layer::library, kAlways},
    {"libopenblas*", "*", Layer::library, kAlways},

    // A kernel's host-side stub, as nvcc makes it: the launch below names the kernel.
    {"*", "__device_stub__*", Layer::runtime, kNever},

    // The dispatcher. `call` and `redispatch` are its steps, the rest carries arguments.
    {"*", "at::_ops::%::call", Layer::dispatcher, kAlways},
    {"*", "at::_ops::%::redispatch", Layer::dispatcher, kAlways},
    {"*", "at::_ops::*", Layer::dispatcher, kNever},
    {"*", "c10::impl::*", Layer::dispatcher, kNever},
    {"*", "c10::BoxedKernelWrapper*", Layer::dispatcher, kNever},
    {"*", "c10::KernelFunction::*", Layer::dispatcher, kNever},
    {"*", "c10::BoxedKernel::*", Layer::dispatcher, kNever},
    {"*", "c10::OperatorHandle::*", Layer::dispatcher, kNever},
    {"*", "c10::TypedOperatorHandle<*", Layer::dispatcher, kNever},
    {"*", "c10::Dispatcher::callWithDispatchKeySlowPath*", Layer::dispatcher, kNever},
    {"*", "c10::Dispatcher::call<*", Layer::dispatcher, kNever},
    {"*", "c10::Dispatcher::*", Layer::dispatcher, kLeading},
    {"*", "c10::detail::*", Layer::runtime, kNever},
    {"*", "c10::function_ref<*", Layer::runtime, kNever},

    // Plumbing of the standard library and of pybind11.
    {"*", "std::*", Layer::runtime, kNever},
    {"*", "__gnu_cxx::*", Layer::runtime, kNever},
    {"*", "pybind11::*", Layer::binding, kNever},

    // What objects do when they end.
    {"*", "*::~*", Layer::runtime, kLeading},

    // What every VariableType kernel does to its arguments.
    {"*", "torch::autograd::VariableType::*unpack*", Layer::autograd, kLeading},
    {"*", "torch::autograd::VariableType::*checked_cast_variable", Layer::autograd, kLeading},

    // Autograd (tools/autograd: VariableType, ADInplaceOrView, TraceType, the backward nodes).
    {"*", "torch::autograd::VariableType::(anonymous namespace)::*", Layer::autograd, kAlways},
    {"*", "torch::ADInplaceOrView::(anonymous namespace)::*", Layer::autograd, kAlways},
    {"*", "torch::TraceType::(anonymous namespace)::*", Layer::autograd, kAlways},
    {"*", "torch::autograd::generated::%::apply", Layer::autograd, kAlways},
    {"*", "torch::autograd::generated::details::*", Layer::autograd, kAlways},
    {"*", "torch::autograd::%::apply", Layer::autograd, kAlways},
    {"*", "torch::autograd::Engine::execute", Layer::autograd, kAlways},
    {"*", "torch::autograd::Engine::evaluate_function", Layer::autograd, kAlways},
    {"*", "torch::autograd::Engine::*", Layer::autograd, kLeading},
    {"*", "torch::autograd::python::PythonEngine::*", Layer::autograd, kLeading},
    {"*", "torch::autograd::Node::operator()", Layer::autograd, kNever},
    {"*", "torch::autograd::generated::*", Layer::autograd, kLeading},
    {"*", "torch::autograd::VariableType::*", Layer::autograd, kLeading},
    {"*", "torch::ADInplaceOrView::*", Layer::autograd, kLeading},
    {"*", "torch::TraceType::*", Layer::autograd, kLeading},

    // Bindings: everything else in libtorch_python.
    {"*", "torch::autograd::THP*", Layer::binding, kLeading},
    {"*", "THP*", Layer::binding, kLeading},
    {"*", "torch::autograd::*", Layer::autograd, kLeading},
    {"libtorch_python*", "torch::*", Layer::binding, kLeading},
    {"libtorch_python*", "at::%", Layer::dispatcher, kLeading},
    {"libtorch_python*", "c10::*", Layer::runtime, kLeading},
    {"libtorch_python*", "*", Layer::binding, kLeading},

    // Libraries that are linked into libtorch_cpu or called through its imports. oneDNN's own
    // layers are its business; the implementation that it chose is noted at its entry point.
    {"*", "dnnl_primitive_execute", Layer::library, kAlways},
    {"*", "dnnl_*gemm*", Layer::library, kAlways},
    {"*", "dnnl*", Layer::library, kNever},
    {"*", "ideep::*", Layer::library, kLeading},
    {"*", "cblas_*", Layer::library, kAlways},
    {"*", "mkl_blas_*", Layer::library, kLeading},  // Behind Fortran's names.
    {"*", "mkl_lapack_*", Layer::library, kLeading},
    {"*", "mkl_*", Layer::library, kAlways},
    {"*", "MKL_*", Layer::library, kAlways},
    {"*", "Dfti*", Layer::library, kAlways},
    {"*", "LAPACKE_*", Layer::library, kAlways},
    {"*", "fbgemm::*", Layer::library, kAlways},
    {"*", "xnn_*", Layer::library, kAlways},
    {"*", "nnp_*", Layer::library, kAlways},
    {"*", "pytorch_q*", Layer::library, kAlways},
    {"*", "qnnpack::*", Layer::library, kAlways},
    {"*", "Sleef_*", Layer::library, kAlways},
    {"*", "cudnn*", Layer::library, kAlways},
    {"*", "cublas*", Layer::library, kAlways},
    {"*", "cusolver*", Layer::library, kAlways},
    {"*", "cusparse*", Layer::library, kAlways},
    {"*", "cufft*", Layer::library, kAlways},
    {"*", "curand*", Layer::library, kAlways},
    {"*", "nccl*", Layer::library, kAlways},
    {"*", "cudaLaunch*", Layer::library, kAlways},
    {"*", "__cudaLaunch*", Layer::library, kAlways},
    {"*", "vms%", Layer::library, kAlways},  // MKL's vector math: vmsSin, vmdExp, ...
    {"*", "vmd%", Layer::library, kAlways},
    {"*", "vmc%", Layer::library, kAlways},
    {"*", "vmz%", Layer::library, kAlways},

    // Choosing between the copies of a kernel, and making its outputs.
    {"*", "at::native::DispatchStub<*", Layer::kernel, kNever},
    {"*", "at::native::DispatchStubImpl::*", Layer::kernel, kNever},
    {"*", "at::native::get_cpu_capability", Layer::kernel, kLeading},
    {"*", "at::*::set_output_strided", Layer::kernel, kLeading},
    {"*", "at::*::set_output_raw_strided", Layer::kernel, kLeading},
    {"*", "at::*::maybe_get_output", Layer::kernel, kLeading},

    // Kernels: what is registered for an op and a dispatch key, and what it is made of.
    {"*", "at::native::*", Layer::kernel, kAlways},
    {"*", "at::(anonymous namespace)::*", Layer::kernel, kAlways},
    {"*", "at::meta::*", Layer::kernel, kAlways},
    {"*", "at::cpu::*", Layer::kernel, kAlways},
    // The context: devices, streams, properties. What has a kernel in it leads to one.
    {"*", "at::cuda::detail::*", Layer::runtime, kLeading},
    {"*", "at::cuda::%", Layer::kernel, kLeading},
    {"*", "at::cuda::*", Layer::kernel, kAlways},
    {"*", "at::sparsecpu::*", Layer::kernel, kAlways},
    {"*", "at::sparsecsrcpu::*", Layer::kernel, kAlways},
    {"*", "at::compositeexplicitautograd::*", Layer::kernel, kAlways},
    {"*", "at::compositeexplicitautogradnonfunctional::*", Layer::kernel, kAlways},
    {"*", "at::compositeimplicitautograd::*", Layer::kernel, kAlways},
    {"*", "at::compositeimplicitautogradnestedtensor::*", Layer::kernel, kAlways},
    {"*", "at::functionalization::*", Layer::kernel, kAlways},
    {"*", "at::functorch::*", Layer::kernel, kAlways},
    {"*", "at::autocast::*", Layer::kernel, kAlways},

    // The public functions of ATen/Functions.h and of Tensor: one line that calls the dispatcher.
    {"*", "at::internal::*", Layer::runtime, kNever},
    {"*", "at::parallel_for*", Layer::runtime, kNever},
    {"*", "at::Tensor::%", Layer::dispatcher, kLeading},
    {"*", "at::redispatch::%", Layer::dispatcher, kLeading},
    {"*", "at::%", Layer::dispatcher, kLeading},

    // Fortran's BLAS and LAPACK: sgemm_, dgesv_, and MKL's other spelling of them, SGEMM.
    {"*", "%_", Layer::library, kAlways},
    {"*", "^", Layer::library, kAlways},
});

// Python functions that are left out: they look something up, and stand in every module's stack.
constexpr auto kFoldedPython = std::to_array<std::string_view>({
    "torch.nn.modules.module.Module.__getattr__",
    "importlib._bootstrap*",  // How a module's code comes to run.
});

struct LibraryRow {
  std::string_view name;  // Pattern of the function's name.
  std::string_view library;
};

constexpr auto kLibraries = std::to_array<LibraryRow>({
    {"dnnl*", "oneDNN"},       {"ideep::*", "oneDNN"},    {"mkl_*", "MKL"},
    {"MKL_*", "MKL"},          {"Dfti*", "MKL"},          {"vms*", "MKL"},
    {"vmd*", "MKL"},           {"vmc*", "MKL"},           {"vmz*", "MKL"},
    {"cblas_*", "BLAS"},       {"fbgemm::*", "FBGEMM"},   {"xnn_*", "XNNPACK"},
    {"nnp_*", "NNPACK"},       {"pytorch_q*", "QNNPACK"}, {"qnnpack::*", "QNNPACK"},
    {"cudnn*", "cuDNN"},       {"cublasLt*", "cuBLASLt"}, {"cublas*", "cuBLAS"},
    {"cusolver*", "cuSOLVER"}, {"cusparse*", "cuSPARSE"}, {"cufft*", "cuFFT"},
    {"curand*", "cuRAND"},     {"nccl*", "NCCL"},         {"cuda*", "CUDA"},
    {"__cuda*", "CUDA"},       {"cu*", "CUDA"},           {"nvrtc*", "NVRTC"},
    {"%_", "BLAS/LAPACK"},     {"^", "BLAS/LAPACK"},
});

// Of library interfaces: what prepares, asks and cleans up.
constexpr auto kLibraryBookkeeping = std::to_array<std::string_view>({
    "cu*Create*",
    "cu*Destroy*",
    "cu*Set*",
    "cu*Get*",
    "cu*_bufferSize*",
    "cu*BufferSize*",
    "cu*Error*",
    "cu*Initialize*",
    "cu*Finalize*",
    "cudaDeviceGet*",
    "cudaEventCreate*",
    "cudaEventDestroy",
    "cudaEventQuery",
    "cudaEventRecord*",
    "cudaStreamCreate*",
    "cudaStreamDestroy",
    "cudaStreamIsCapturing",
    "cudaStreamQuery",
    "cudaMalloc*",
    "cudaFree*",
    "cudaFunc*",
    "cudaOccupancy*",
    "nccl*Get*",
    "ncclComm*",
    "Dfti*Descriptor*",
    "Dfti*Set*",
    "Dfti*Get*",
    "mkl_get*",
    "mkl_set*",
    "mkl_sparse_*create*",
    "mkl_sparse_*export*",
    "mkl_sparse_destroy",
    "mkl_sparse_order",
    "MKL_Set*",
    "MKL_Get*",
    "ideep::tensor*",
    "ideep::attr_t*",
    "ideep::data_type*",
    "ideep::format_tag*",
    "ideep::engine*",
    "ideep::stream*",
    "ideep::*::prepare*",
    "ideep::*::*_desc",
    "ideep::*desc*",
    "ideep::%",
    "dnnl::*get_*",
    "dnnl::*set_*",
    "dnnl::memory*",
    "dnnl::engine*",
    "dnnl::stream*",
    "dnnl::*desc*",
    "xnn_create*",
    "xnn_delete*",
    "xnn_initialize",
    "xnn_setup*",
    "xnn_reshape*",
    "nnp_initialize",
    "fbgemm::%Supported*",
});

}  // namespace

bool matches_pattern(std::string_view text, std::string_view pattern) {
  // The last wildcard takes one character more whenever what follows it does not fit; a narrow one
  // that can't hands over to the last `*`.
  struct Wildcard {
    std::size_t behind = std::string_view::npos;  // In the pattern.
    std::size_t end = 0;                          // Of what it takes of the text.
    char kind = '*';
    bool takes(char c) const {
      if (kind == '%') return c != ':';
      if (kind == '^') return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
      return true;
    }
    bool grow(std::string_view of) {
      if (behind == std::string_view::npos || end == of.size() || !takes(of[end])) return false;
      ++end;
      return true;
    }
  };
  Wildcard any;
  Wildcard narrow;
  std::size_t t = 0;
  std::size_t p = 0;
  while (true) {
    const char next = p < pattern.size() ? pattern[p] : '\0';
    if (next == '*') {
      any = {++p, t, next};
      narrow = {};
    } else if (next == '%' || next == '^') {
      narrow = {++p, t, next};
    } else if (t < text.size() && p < pattern.size() && next == text[t]) {
      ++t;
      ++p;
    } else if (t == text.size() && p == pattern.size()) {
      return true;
    } else if (narrow.grow(text)) {
      p = narrow.behind;
      t = narrow.end;
    } else if (any.grow(text)) {
      p = any.behind;
      t = any.end;
      narrow = {};
    } else {
      return false;
    }
  }
}

Placement place(std::string_view name, std::string_view library) {
  for (const Row& row : kRows)
    if (matches_pattern(library, row.library) && matches_pattern(name, row.name))
      return {row.layer, row.shown};
  return {};
}

Placement place_python(std::string_view name) {
  for (const std::string_view pattern : kFoldedPython)
    if (matches_pattern(name, pattern)) return {Layer::python, Shown::never};
  // What torch calls of Python's own library is an answer only where it leads back to torch.
  return {Layer::python, name.starts_with("torch.") ? Shown::always : Shown::leading};
}

std::optional<DispatcherStep> dispatcher_step(std::string_view name) {
  if (name == "c10::Dispatcher::callBoxed" || name == kUnboxedCall)
    return DispatcherStep{{}, false};
  if (name == "c10::Dispatcher::redispatchBoxed") return DispatcherStep{{}, true};
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

bool is_library_function(std::string_view name) {
  return std::ranges::any_of(
      kRows, [&](const Row& row) { return row.layer == Layer::library && row.name == name; });
}

bool is_library_bookkeeping(std::string_view name) {
  return std::any_of(kLibraryBookkeeping.begin(), kLibraryBookkeeping.end(),
                     [&](std::string_view row) { return matches_pattern(name, row); });
}

std::string_view library_name(std::string_view name) {
  for (const LibraryRow& row : kLibraries)
    if (matches_pattern(name, row.name)) return row.library;
  return {};
}

}  // namespace optrace

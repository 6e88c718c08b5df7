#include "tracer/probes/probe_selection.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <span>

#include <fmt/format.h>
#include <pthread.h>

#include "platform/text/ascii_text.h"
#include "pytorch/functions/dispatcher_steps.h"
#include "pytorch/functions/function_roles.h"
#include "pytorch/functions/generated_names.h"

namespace optrace {
namespace {

/// A row of the table of functions that can be a step of an op's call path.
struct SelectionRule {
  enum class Kind : std::uint8_t {
    scope,       ///< `name` is a namespace or class around the function, at any depth.
    directly,    ///< `name` is the namespace directly around the function.
    function,    ///< `name` is a prefix of the name of a C++ function at global scope.
    c_function,  ///< `name` is a prefix of a C function's name; a final `$` matches its end.
    part         ///< `name` occurs in the symbol, in any language.
  };
  Kind kind;
  std::string_view name;
  std::string_view text;  ///< Must also occur in the mangled name; empty: no condition.
};

using Kind = SelectionRule::Kind;

// The functions that implement the steps of an op's call path in PyTorch. Names are those of its
// source and of the code that torchgen generates (torchgen/gen.py, tools/autograd). The table need
// not be complete: an unlisted function that calls a probed one is found on the stack
// (agent/callers/callers.h).
constexpr auto kRules = std::to_array<SelectionRule>({
    // Dispatcher entries (Operators_*.cpp) and the unboxed kernels that they call.
    {Kind::scope, "at::_ops", "4callE"},
    {Kind::scope, "at::_ops", "10redispatchE"},
    {Kind::scope, "c10::Dispatcher", "9callBoxedE"},
    {Kind::scope, "c10::Dispatcher", "15redispatchBoxedE"},
    {Kind::scope, "c10::Dispatcher", "27callWithDispatchKeySlowPath"},
    {Kind::scope, "c10::impl::wrap_kernel_functor_unboxed_", "4callE"},

    // Kernels: wrappers of RegisterCPU.cpp and similar files, structured kernels, native functions.
    {Kind::scope, "at::_GLOBAL__N_1", kWrapperStart},
    {Kind::scope, "at::_GLOBAL__N_1", "structured_"},
    {Kind::scope, "at::native", ""},
    {Kind::scope, "sdp", ""},  // The choice of attention's backend.
    {Kind::scope, "at::meta", ""},
    {Kind::scope, "at::cpu", ""},
    {Kind::scope, "at::cuda::blas", ""},
    {Kind::scope, "at::cuda::solver", ""},
    {Kind::directly, "at::cuda", ""},
    {Kind::scope, "at::sparsecpu", ""},
    {Kind::scope, "at::sparsecsrcpu", ""},
    {Kind::scope, "at::compositeexplicitautograd", ""},
    {Kind::scope, "at::compositeexplicitautogradnonfunctional", ""},
    {Kind::scope, "at::compositeimplicitautograd", ""},
    {Kind::scope, "at::autocast", ""},
    {Kind::scope, "at::functorch", ""},
    {Kind::directly, "at", ""},

    // The user's settings that decide on kernels and libraries.
    {Kind::scope, "at::Context", "userEnabled"},
    {Kind::scope, "at::Context", "deterministicCuDNN"},
    {Kind::scope, "at::Context", "deterministicMkldnn"},
    {Kind::scope, "at::Context", "23deterministicAlgorithms"},

    // Autograd, forward and backward.
    {Kind::scope, "torch::autograd::VariableType", ""},
    {Kind::scope, "torch::ADInplaceOrView", ""},
    {Kind::scope, "torch::TraceType", ""},
    {Kind::scope, "torch::autograd::generated::details", ""},
    {Kind::scope, "torch::autograd::Engine", ""},
    {Kind::scope, "torch::autograd", "5applyE"},
    {Kind::scope, "torch::autograd", "nodeclE"},
    {Kind::scope, "torch::autograd", "NodeclE"},

    // Python bindings (python_torch_functions.cpp, python_variable_methods.cpp and similar files).
    {Kind::scope, "torch::autograd", kBindingStart},
    {Kind::scope, "torch::autograd::python", ""},
    {Kind::directly, "torch::autograd", ""},
    {Kind::function, "THP", ""},

    // Functions that the call tree depends on: the boxed entries into ops, the functions that open
    // OpenMP regions as GCC and clang compile them, and those that their threads run.
    {Kind::scope, "c10::Dispatcher", "callBoxed"},
    {Kind::scope, "c10::Dispatcher", "redispatchBoxed"},
    {Kind::c_function, "GOMP_parallel", ""},
    {Kind::c_function, "__kmpc_fork_call$", ""},
    {Kind::part, "._omp_fn.", ""},
    {Kind::part, ".omp_outlined", ""},

    // oneDNN: the C interface, and the implementation that it chose.
    {Kind::c_function, "dnnl_primitive_execute$", ""},
    {Kind::c_function, "dnnl_sgemm$", ""},
    {Kind::scope, "dnnl::impl", "execute"},
    {Kind::scope, "ideep", ""},

    // BLAS, LAPACK and MKL as ATen/native/CPUBlas.cpp, BatchLinearAlgebraKernel.cpp and mkl/ call
    // them. `?` matches s, d, c or z, and `@` a capital letter.
    {Kind::c_function, "?gemm_$", ""},
    {Kind::c_function, "?gemv_$", ""},
    {Kind::c_function, "?dot_$", ""},
    {Kind::c_function, "?dotu_$", ""},
    {Kind::c_function, "?dotc_$", ""},
    {Kind::c_function, "?axpy_$", ""},
    {Kind::c_function, "?scal_$", ""},
    {Kind::c_function, "?copy_$", ""},
    {Kind::c_function, "?trsm_$", ""},
    {Kind::c_function, "?getrf_$", ""},
    {Kind::c_function, "?getrs_$", ""},
    {Kind::c_function, "?getri_$", ""},
    {Kind::c_function, "?geqrf_$", ""},
    {Kind::c_function, "?orgqr_$", ""},
    {Kind::c_function, "?ungqr_$", ""},
    {Kind::c_function, "?ormqr_$", ""},
    {Kind::c_function, "?unmqr_$", ""},
    {Kind::c_function, "?potrf_$", ""},
    {Kind::c_function, "?potri_$", ""},
    {Kind::c_function, "?potrs_$", ""},
    {Kind::c_function, "?syevd_$", ""},
    {Kind::c_function, "?heevd_$", ""},
    {Kind::c_function, "?geev_$", ""},
    {Kind::c_function, "?gesdd_$", ""},
    {Kind::c_function, "?gels_$", ""},
    {Kind::c_function, "?gelsd_$", ""},
    {Kind::c_function, "?gelss_$", ""},
    {Kind::c_function, "?gelsy_$", ""},
    {Kind::c_function, "?sytrf_$", ""},
    {Kind::c_function, "?hetrf_$", ""},
    {Kind::c_function, "?sytrs_$", ""},
    {Kind::c_function, "?hetrs_$", ""},
    {Kind::c_function, "cblas_", "gemm"},
    {Kind::c_function, "mkl_sparse_", ""},
    {Kind::c_function, "DftiCompute", ""},
    {Kind::c_function, "vm?@", ""},
    {Kind::c_function, "nnp_convolution_", ""},

    // Libraries of quantized and mobile kernels (ATen/native/quantized/cpu/, ATen/native/xnnpack/).
    {Kind::scope, "fbgemm", "12fbgemmPacked"},
    {Kind::scope, "fbgemm", "10fbgemmConv"},
    {Kind::scope, "fbgemm", "18cblas_gemm_compute"},
    {Kind::scope, "fbgemm", "22GenerateEmbeddingSpMDM"},
    {Kind::scope, "fbgemm", "8QuantizeI"},
    {Kind::scope, "fbgemm", "10DequantizeI"},
    {Kind::directly, "qnnpack", ""},
    {Kind::c_function, "pytorch_qnnp_run_operator$", ""},
    {Kind::c_function, "xnn_run_operator", ""},
    {Kind::c_function, "xnn_invoke_runtime$", ""},

    // Exported functions of CUDA's libraries.
    {Kind::c_function, "cudnn", ""},
    {Kind::c_function, "cublas", ""},
    {Kind::c_function, "cusolver", ""},
    {Kind::c_function, "cusparse", ""},
    {Kind::c_function, "cufft", ""},
    {Kind::c_function, "curand", ""},
    {Kind::c_function, "nccl", ""},
    // The calls that fail most often; shown only where they fail.
    {Kind::c_function, "cudaMalloc", ""},
    {Kind::c_function, "cudaHostAlloc$", ""},
    {Kind::c_function, "cudaSetDevice$", ""},
    {Kind::c_function, "cuMemCreate$", ""},
    {Kind::c_function, "cudaLaunch", ""},
    {Kind::c_function, "__cudaLaunch", ""},
    {Kind::c_function, "cudaGraphLaunch", ""},
    {Kind::c_function, "cudaMemcpy", ""},
    {Kind::c_function, "cudaMemset", ""},
    {Kind::c_function, "cudaStreamSynchronize", ""},
    {Kind::c_function, "cudaEventSynchronize", ""},
    {Kind::c_function, "cudaDeviceSynchronize", ""},
    {Kind::c_function, "cuLaunch", ""},
    {Kind::c_function, "cuMemcpy", ""},
    {Kind::c_function, "cuMemset", ""},
    {Kind::c_function, "cuModuleLoad", ""},
    {Kind::c_function, "nvrtcCompileProgram", ""},
});

/// Returns the scope as mangled by the Itanium ABI: `2at6native` for `at::native`.
std::string mangled_scope(std::string_view scope) {
  std::string mangled;
  while (!scope.empty()) {
    const std::size_t end = std::min(scope.find("::"), scope.size());
    mangled += fmt::format("{}{}", end, scope.substr(0, end));
    scope.remove_prefix(std::min(end + 2, scope.size()));
  }
  return mangled;
}

struct CompiledRule {
  SelectionRule rule;
  std::string scope;  ///< Mangled, for rules about scopes.
  std::size_t components = 0;
};

const std::vector<CompiledRule>& compiled_rules() {
  static const std::vector<CompiledRule> rules = [] {
    std::vector<CompiledRule> compiled;
    for (const SelectionRule& rule : kRules) {
      const auto separators = std::ranges::count(rule.name, ':') / 2;
      compiled.push_back(
          {rule, mangled_scope(rule.name), static_cast<std::size_t>(separators) + 1});
    }
    return compiled;
  }();
  return rules;
}

/// The plain identifiers at the start of a mangled name. For `_ZZN2at6nativeL3addEvENKUlvE_`, these
/// are at, native, add, starting at "2at".
struct QualifiedName {
  std::string_view from_first;  ///< The mangled text from the first identifier on.
  std::size_t identifiers = 0;  ///< Number of consecutive identifiers.
  std::string_view first;       ///< First identifier, without its length.
  bool nested = false;
};

std::optional<QualifiedName> parse(std::string_view symbol) {
  if (!symbol.starts_with("_Z")) return std::nullopt;
  std::size_t at = 2;
  QualifiedName name;
  // Z: a local entity; N: nested; the others qualify a member function.
  while (at < symbol.size() && std::string_view("ZNKVrROL").find(symbol[at]) != symbol.npos) {
    name.nested |= symbol[at] == 'N';
    ++at;
  }
  name.from_first = symbol.substr(at);
  while (at < symbol.size()) {
    if (symbol[at] == 'L') ++at;
    std::size_t length = 0;
    const std::size_t digits = at;
    while (at < symbol.size() && is_digit(symbol[at]) && length < symbol.size()) {
      length = length * 10 + static_cast<std::size_t>(symbol[at++] - '0');
    }
    if (at == digits || length == 0 || length > symbol.size() - at) break;
    if (name.identifiers++ == 0) name.first = symbol.substr(at, length);
    at += length;
    if (!name.nested) break;
  }
  if (name.identifiers == 0) return std::nullopt;
  return name;
}

bool is_destructor(std::string_view symbol) {
  return symbol.ends_with("D0Ev") || symbol.ends_with("D1Ev") || symbol.ends_with("D2Ev");
}

/// Parts of the names of functions that the rules select, that lead nowhere, and that others call
/// so often that their probes would take most of the time. One that leads somewhere after all, such
/// as a hook, is found on the stack.
constexpr auto kNoSteps = std::to_array<std::string_view>({
    // Conversions of Python objects, and the Python object of a tensor.
    "THPUtils_", "THPVariable_Wrap", "THPVariable_NewWithVar", "THPVariable_subclass_",
    "THPDevice_New",
    // Settings of a thread, which each autograd node saves and restores, and of the process.
    "8autocast18set_autocast_dtype", "8autocast18get_autocast_dtype", "FuncTorchTLSE",
    "13globalContextEv", "14get_thread_numEv", "15get_num_threadsEv", "18in_parallel_regionEv",
    "16getStepCallbacks", "27getStepCallbacksUnlessEmpty", "14RecordFunctionC",
    "24get_record_function_tls_", "24set_record_function_tls_", "14getAcceleratorEb",
    // What is done with the inputs of an op, one by one.
    "12VariableType6unpack", "21checked_cast_variable", "15isFwGradDefined",
    "24update_result_type_state", "16original_options", "20has_internal_overlap",
    "18get_overlap_status", "26assert_no_internal_overlap", "25assert_no_partial_overlap",
    "17assert_no_overlap", "13check_inplaceE", "21compute_requires_gradI", "18collect_next_edgesI",
    "15gatherFunctionsE", "19flatten_tensor_args", "32throw_error_for_complex_autograd",
    "21check_input_variables", "20infer_size_dimvector", "29inferExpandGeometry_dimvector",
    "18dim_list_to_bitset", "11result_typeERKNS0_15ResultTypeStateE", "13to_will_alias",
    "7check_tE", "20any_variable_defined", "22cat_should_skip_tensor",
    "25infer_dtype_from_optional",
    "6TensoraSE",  // at::Tensor::operator=
    // The dimensions of the iteration over them.
    "10DimCounterC", "14find_split_dim", "16resize_reduction", "20review_reduce_result",
    // The outputs of a structured kernel, and the metadata of others.
    "resize_output_check", "10setStridedI", "16resize_bytes_cpu", "16maybe_get_output",
    "18set_output_stridedE", "22set_output_raw_stridedE",
    // What autograd notes about a tensor, and the parts of its nodes.
    "12AutogradMetaC", "22DifferentiableViewMetaC", "8ViewInfoC", "13InputMetadataC",
    "13SavedVariable", "7as_viewE", "33make_variable_differentiable_view", "11set_historyE",
    "25materialize_autograd_meta", "17set_gradient_edge", "8autograd4NodeC", "10deleteNodeE",
    "17TraceableFunctionC", "17release_variablesE", "4Node6streamEv",
    // The engine's bookkeeping for each node.
    "14GraphTaskGuardC", "9NodeGuardC", "32get_current_graph_task_exec_info",
    "26task_should_compute_output", "21call_tensor_pre_hooks", "11ready_queueE",
    "8autograd10set_deviceE", "17get_python_engine", "18get_default_engine", "17get_default_hooks",
    "32get_default_saved_variable_hooks", "16validate_outputs", "16ThreadLocalStateC",
    // What a derivative formula does with a gradient, where it need not compute anything.
    "10copy_rangeE", "14maybe_multiply", "13handle_r_to_c", "15strides_or_error",
    // The choice of a kernel's CPU capability, which is part of the chosen kernel's name.
    "16DispatchStubImpl", "18get_cpu_capability",
    // oneDNN's tensors and engine, and what the processor supports.
    "5ideep6tensorC", "5ideep6tensor4initE", "6tensor8get_descE", "6engine10cpu_engine",
    "21has_bf16_type_support",
    "RowwiseMoments",     // Each row of a normalization.
    "GOMP_parallel_end",  // Called by GOMP_parallel.
});

/// A list of texts of at least two bytes that are searched for at the same time, in one pass over a
/// symbol.
class Parts {
 public:
  explicit Parts(std::span<const std::string_view> parts) : parts_(parts.begin(), parts.end()) {
    std::ranges::sort(parts_);
    for (const std::string_view part : parts_) starts_.set(start_of(part));
  }

  bool any_in(std::string_view symbol) const {
    for (; symbol.size() >= kStart; symbol.remove_prefix(1)) {
      if (!starts_[start_of(symbol)]) continue;
      const auto same_start = std::ranges::equal_range(
          parts_, symbol.substr(0, kStart), {}, [](auto part) { return part.substr(0, kStart); });
      if (std::ranges::any_of(same_start, [&](auto part) { return symbol.starts_with(part); }))
        return true;
    }
    return false;
  }

 private:
  static constexpr std::size_t kStart = 2;  ///< Bytes.

  static std::size_t start_of(std::string_view text) {
    return std::size_t{static_cast<unsigned char>(text[0])} << 8U |
           static_cast<unsigned char>(text[1]);
  }

  std::vector<std::string_view> parts_;  ///< Sorted.
  std::bitset<1U << 16U> starts_;        ///< Of all parts.
};

bool is_no_step(std::string_view symbol) {
  static const Parts parts(kNoSteps);
  return parts.any_in(symbol);
}

/// Matches a C name against a pattern, in which `?` is one of s, d, c, z, `@` is a capital letter,
/// and a final `$` is the end.
bool matches_c_name(std::string_view symbol, std::string_view pattern) {
  const bool whole = pattern.ends_with('$');
  if (whole) pattern.remove_suffix(1);
  if (symbol.size() < pattern.size() || (whole && symbol.size() != pattern.size())) return false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const bool same = pattern[i] == '?'   ? std::string_view("sdcz").find(symbol[i]) != symbol.npos
                      : pattern[i] == '@' ? symbol[i] >= 'A' && symbol[i] <= 'Z'
                                          : pattern[i] == symbol[i];
    if (!same) return false;
  }
  return true;
}

bool matches(const CompiledRule& compiled, std::string_view symbol,
             const std::optional<QualifiedName>& name) {
  const SelectionRule& rule = compiled.rule;
  switch (rule.kind) {
    case Kind::scope:
      if (!name || !name->nested || !name->from_first.starts_with(compiled.scope)) return false;
      break;
    case Kind::directly:
      if (!name || !name->nested || name->identifiers != compiled.components + 1 ||
          !name->from_first.starts_with(compiled.scope)) {
        return false;
      }
      break;
    case Kind::function:
      if (!name || name->nested || !name->first.starts_with(rule.name)) return false;
      break;
    case Kind::c_function:
      if (name || !matches_c_name(symbol, rule.name)) return false;
      break;
    case Kind::part:
      if (symbol.find(rule.name) == symbol.npos) return false;
      break;
  }
  return rule.text.empty() || symbol.find(rule.text) != symbol.npos;
}

/// The rules that may select a symbol, by the first byte of its identifiers or of its C name. A
/// library has several hundred thousand symbols, and most rules exclude most of them by that byte.
class RulesByStart {
 public:
  RulesByStart() {
    const auto& rules = compiled_rules();
    for (std::size_t i = 0; i < rules.size(); ++i) {
      for (std::size_t byte = 0; byte < kBytes; ++byte) {
        const char start = static_cast<char>(byte);
        if (may_match_qualified(rules[i], start)) qualified_[byte].push_back(i);
        if (may_match_c_name(rules[i].rule, start)) c_names_[byte].push_back(i);
      }
    }
  }

  /// Returns indexes in compiled_rules(), in this order. Neither text is empty.
  const std::vector<std::size_t>& of(std::string_view symbol,
                                     const std::optional<QualifiedName>& name) const {
    const auto index = [](char start) { return static_cast<unsigned char>(start); };
    return name ? qualified_[index(name->from_first.front())] : c_names_[index(symbol.front())];
  }

 private:
  static constexpr std::size_t kBytes = 256;

  static bool may_match_qualified(const CompiledRule& compiled, char start) {
    switch (compiled.rule.kind) {
      case Kind::scope:
      case Kind::directly:
        return compiled.scope.starts_with(start);
      case Kind::function:
      case Kind::part:
        return true;
      case Kind::c_function:
        break;
    }
    return false;
  }

  static bool may_match_c_name(const SelectionRule& rule, char start) {
    return rule.kind == Kind::part ||
           (rule.kind == Kind::c_function && matches_c_name({&start, 1}, rule.name.substr(0, 1)));
  }

  std::array<std::vector<std::size_t>, kBytes> qualified_;
  std::array<std::vector<std::size_t>, kBytes> c_names_;
};

}  // namespace

std::optional<std::size_t> selecting_rule(std::string_view symbol) {
  static const RulesByStart rules_by_start;
  if (symbol.empty() || is_destructor(symbol)) return std::nullopt;
  const auto name = parse(symbol);
  const auto& rules = compiled_rules();
  for (const std::size_t i : rules_by_start.of(symbol, name)) {
    if (matches(rules[i], symbol, name)) {
      if (is_no_step(symbol)) return std::nullopt;
      return i;
    }
  }
  return std::nullopt;
}

bool has_telling_arguments(std::string_view symbol) {
  return takes_dispatch_keys(symbol) || role_of(symbol).region_data;
}

std::vector<NamedAddress> select_functions(const ModuleSymbols& module) {
  std::vector<NamedAddress> selected;
  module.for_each_name([&](std::uint64_t address, std::string_view symbol) {
    if (selecting_rule(symbol)) selected.push_back({address, symbol});
  });
  std::ranges::stable_sort(selected, {}, &NamedAddress::address);
  return selected;
}

std::vector<NamedAddress> select_slots(const ModuleSymbols& module) {
  std::vector<NamedAddress> selected;
  module.for_each_slot([&](std::uint64_t slot, std::string_view symbol) {
    if (selecting_rule(symbol)) selected.push_back({slot, symbol});
  });
  return selected;
}

std::optional<std::uint64_t> fork_lock_of(const ModuleSymbols& module) {
  // at::(anonymous namespace)::GlobalCallbackManager::get()::manager consists of a version
  // (std::size_t), a vector of callbacks and a mutex, in this order (ATen/record_function.cpp, 2.6
  // to 2.15).
  constexpr std::string_view kManager =
      "_ZZN2at12_GLOBAL__N_121GlobalCallbackManager3getEvE7manager";
  constexpr std::size_t kMutex = sizeof(std::size_t) + sizeof(std::vector<int>);
  const auto manager = module.find_object(kManager);
  if (!manager || manager->size != kMutex + sizeof(pthread_mutex_t)) return std::nullopt;
  return manager->address + kMutex;
}

std::vector<plan::Piece> evaluation_loop_of(const ModuleSymbols& module) {
  std::vector<plan::Piece> pieces;
  module.for_each_piece([&](const NativeFunction& piece) {
    if (is_evaluation_loop(piece.symbol) && piece.size != 0)
      pieces.push_back({piece.address, piece.address + piece.size});
  });
  return pieces;
}

std::string stripped_warning(const ModuleSymbols& module) {
  const std::string file = module.path().filename().string();
  if (!module.stripped() || !file.starts_with("libtorch")) return {};
  return fmt::format(
      "{} is stripped: only functions that it exports have names. Static functions, wrappers such "
      "as wrapper_CPU_* and most kernels are missing from the tree. Install PyTorch's own wheel, "
      "or build without stripping, to get them.",
      file);
}

}  // namespace optrace

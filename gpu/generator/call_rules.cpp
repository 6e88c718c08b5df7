#include "gpu/generator/call_rules.h"

#include <algorithm>
#include <array>
#include <regex>
#include <string>
#include <utility>

namespace optrace {
namespace {

// Names from the libraries' documentation. Functions that return other host values than a handle, a
// size or a result match no rule, unless they have an expression; they need an individual
// implementation.
constexpr std::string_view kWorkspace =
    "(lwork|lwork_bytes|Lwork|l_?work(OnDevice|OnHost)?|.*[bB]ufferSize(InBytes|OnDevice|OnHost)?"
    "|workspaceInBytes(OnDevice|OnHost)?|workspace_?[sS]izes?(InBytes)?|sizeInBytes|workSize"
    "|pBufferSize.*)";
constexpr std::string_view kInfo = "(d?_?[iI]nfo|devInfo|d_info)";

// Expressions.
constexpr std::string_view kRuntimeVersion = "emulated::reported_version(\"cuda\", CUDART_VERSION)";
constexpr std::string_view kBlasStatusName = "emulated::enumerator_text<cublasStatus_t, 0, 32>(a0)";

constexpr std::array kRules = {
    CallRule{"cublas", "cublasCreate_v2", CallBehaviour::value, "emulated::create(a0)"},
    CallRule{"cublas", "cublasDestroy_v2", CallBehaviour::value, "emulated::destroy(a0)"},
    CallRule{"cublas", "cublasGetStream_v2", CallBehaviour::value,
             "emulated::setting(a0, &cublasContext::stream, a1)"},
    CallRule{"cublas", "cublas[GS]etPointerMode_v2", CallBehaviour::value,
             "emulated::setting(a0, &cublasContext::pointer_mode, a1)"},
    CallRule{"cublas", "cublas[GS]etAtomicsMode", CallBehaviour::value,
             "emulated::setting(a0, &cublasContext::atomics_mode, a1)"},
    CallRule{"cublas", "cublas[GS]etMathMode", CallBehaviour::value,
             "emulated::setting(a0, &cublasContext::math_mode, a1)"},
    CallRule{"cublas", "cublasGetSmCountTarget", CallBehaviour::value,
             "emulated::setting(a0, &cublasContext::multiprocessors, a1)"},
    CallRule{"cublas", "cublasGetVersion_v2", CallBehaviour::value,
             "give(a1, emulated::reported_version(\"cublas\", CUBLAS_VERSION), "
             "CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_INVALID_VALUE)"},
    CallRule{"cublas", "cublasGetCudartVersion", CallBehaviour::value, kRuntimeVersion},
    CallRule{"cublas", "cublasGetStatus(Name|String)", CallBehaviour::value, kBlasStatusName},
    CallRule{"cublas", "cublas([SDCZ]|Sc|Dz|Sd)(dot[cu]?|nrm2|asum)(_v2)?(_64)?",
             CallBehaviour::compute, "result"},
    CallRule{"cublas", "cublasI[sdcz]a(max|min)(_v2)?(_64)?", CallBehaviour::compute, "result"},
    // Their scalars are both inputs and outputs.
    CallRule{"cublas", "cublas[SDCZ]s?rotm?g.*", CallBehaviour::unimplemented},
    CallRule{"cublas", "cublas[SDCZ](getrf|getri|matinv|geqrf|gels|getrs)Batched",
             CallBehaviour::compute, "info"},
    CallRule{
        "cublas",
        "cublas(Cs|Zd|Uint8|[SDCZH])(gem|sym|hem|sy|he|tr|tp|tb|gb|sb|hb|sp|hp|ge|dgm|axpy|copy"
        "|scal|swap|rot)[A-Za-z0-9]*(_v2)?(_64)?",
        CallBehaviour::compute},
    CallRule{"cublas", "cublas(Gemm|GemmBatched|GemmStridedBatched|Axpy|Scal)Ex(_64)?",
             CallBehaviour::compute},
    CallRule{"cublas", "cublas(Dot|Dotc|Nrm2)Ex(_64)?", CallBehaviour::compute, "result"},

    CallRule{"cublaslt", "cublasLtGetVersion", CallBehaviour::value,
             "emulated::reported_version(\"cublas\", CUBLAS_VERSION)"},
    CallRule{"cublaslt", "cublasLtGetCudartVersion", CallBehaviour::value, kRuntimeVersion},
    CallRule{"cublaslt", "cublasLtGetStatus(Name|String)", CallBehaviour::value, kBlasStatusName},

    CallRule{"cusolver", "cusolver(Dn|Sp|Rf)Create[A-Za-z]*", CallBehaviour::create},
    CallRule{"cusolver", "cusolver(Dn|Sp|Rf)Destroy[A-Za-z]*", CallBehaviour::destroy},
    CallRule{"cusolver", "cusolverDn[A-Za-z0-9]+_bufferSize", CallBehaviour::size, kWorkspace},
    CallRule{
        "cusolver",
        "cusolverDn(Set(Stream|AdvOptions|DeterministicMode|MathMode)|X(syevj|gesvdj)Set[A-Za-z]+)",
        CallBehaviour::set},
    CallRule{"cusolver", "cusolverDn[SDCZ]potrsBatched", CallBehaviour::compute, kInfo},
    // h_R_nrmF is in host memory.
    CallRule{"cusolver", "cusolverDn[SDCZX][A-Za-z]+Batched", CallBehaviour::compute,
             "(info|infoArray|d_info|h_R_nrmF)", "batchSize"},
    CallRule{"cusolver", "cusolverDn[SDCZX](?!.*(Get|Set))[a-z][A-Za-z0-9]*",
             CallBehaviour::compute, kInfo},

    CallRule{"cusparse", "cusparseCreate[A-Za-z0-9]*", CallBehaviour::create},
    CallRule{"cusparse", "cusparse(Sp[A-Z]+_)?[cC]reate(Descr)?", CallBehaviour::create},
    CallRule{"cusparse", "cusparse(Destroy[A-Za-z0-9]*|Sp[A-Z]+_destroyDescr)",
             CallBehaviour::destroy},
    CallRule{"cusparse", "cusparse[A-Za-z0-9]+_bufferSize(Ext)?", CallBehaviour::size, kWorkspace},
    CallRule{"cusparse", "cusparseSet(Stream|PointerMode|Mat(Type|FillMode|DiagType|IndexBase))",
             CallBehaviour::set},
    CallRule{"cusparse",
             "cusparse(SpMM|SpMV|SpSV|SpSM|SDDMM|SpMMOp)(_preprocess|_analysis|_solve)?",
             CallBehaviour::compute},
    CallRule{"cusparse", "cusparseSpGEMM(reuse)?_(workEstimation|estimateMemory|nnz|compute|copy)",
             CallBehaviour::implemented},
    CallRule{"cusparse",
             "cusparse(X(coo2csr|csrsort|coosortBy(Row|Column))|CreateIdentityPermutation)",
             CallBehaviour::compute},
    CallRule{"cusparse",
             "cusparse[SDCZ](csrgeam2|bsrmm|bsrmv|bsrsv2_(analysis|solve)|bsrsm2_(analysis|solve)"
             "|gemvi|gthr|sctr|gtsv2[A-Za-z_]*)",
             CallBehaviour::compute},

    CallRule{"cusparse", "cusparseGetError(Name|String)", CallBehaviour::value,
             "emulated::enumerator_text<cusparseStatus_t, 0, 12>(a0, \"unknown error\")"},

    CallRule{"cufft", "cufftGetVersion", CallBehaviour::value,
             "give(a0, emulated::reported_version(\"cufft\", CUFFT_VERSION), CUFFT_SUCCESS, "
             "CUFFT_INVALID_VALUE)"},
    CallRule{"cufft", "cufftSet(Stream|WorkArea|AutoAllocation)", CallBehaviour::set},
    CallRule{"cufft", "cufft(Exec[A-Z0-9a-z]+|XtExec)", CallBehaviour::compute},

    CallRule{"curand", "curandCreateGenerator(Host)?", CallBehaviour::create},
    CallRule{"curand", "curandDestroyGenerator", CallBehaviour::destroy},
    CallRule{"curand", "curandSet[A-Za-z0-9]+", CallBehaviour::set},
    CallRule{"curand", "curandGenerate(Uniform|Normal|LogNormal|Poisson|LongLong)?(Double)?",
             CallBehaviour::compute},

    CallRule{"cudnn",
             "cudnn(BatchNormalization(Forward|Backward)[A-Za-z]*|CTCLoss(_v8)?"
             "|Convolution(Forward|BiasActivationForward|BackwardData|BackwardFilter)"
             "|(Activation|Pooling|Softmax)Forward|RNN(Forward|Backward(Data|Weights)_v8)"
             "|SpatialTf[A-Za-z]+)",
             CallBehaviour::implemented},
    // Descriptors with contents; others are only addresses.
    CallRule{"cudnn",
             "cudnnCreate((Tensor|Filter|Convolution|Activation|Pooling|Dropout|SpatialTransformer"
             "|RNN|RNNData|CTCLoss)Descriptor)?",
             CallBehaviour::value, "emulated::create(a0)"},
    CallRule{"cudnn",
             "cudnnDestroy((Tensor|Filter|Convolution|Activation|Pooling|Dropout|SpatialTransformer"
             "|RNN|RNNData|CTCLoss)Descriptor)?",
             CallBehaviour::value, "emulated::destroy(a0)"},
    CallRule{"cudnn", "cudnnCreate[A-Za-z0-9]*", CallBehaviour::create},
    CallRule{"cudnn", "cudnnDestroy[A-Za-z0-9]*", CallBehaviour::destroy},
    CallRule{"cudnn", "cudnnGetVersion", CallBehaviour::value,
             "emulated::reported_version(\"cudnn\", CUDNN_VERSION)"},
    CallRule{"cudnn", "cudnnGetMaxDeviceVersion", CallBehaviour::value, "CUDNN_MAX_DEVICE_VERSION"},
    CallRule{"cudnn", "cudnnGetCudartVersion", CallBehaviour::value, kRuntimeVersion},

    CallRule{"nccl",
             "ncclRecv|ncclSend|nccl(All(Gather|Reduce|toAll)|Broadcast|Bcast|Gather|Scatter|Reduce"
             "|ReduceScatter)",
             CallBehaviour::compute},
    CallRule{"nccl", "ncclCommCount", CallBehaviour::value,
             "emulated::communicator_value(a0, &ncclComm::ranks, a1)"},
    CallRule{"nccl", "ncclCommCuDevice", CallBehaviour::value,
             "emulated::communicator_value(a0, &ncclComm::device, a1)"},
    CallRule{"nccl", "ncclCommUserRank", CallBehaviour::value,
             "emulated::communicator_value(a0, &ncclComm::rank, a1)"},
    CallRule{"nccl", "ncclGetVersion", CallBehaviour::value,
             "give(a0, emulated::reported_version(\"nccl\", NCCL_VERSION_CODE), ncclSuccess, "
             "ncclInvalidArgument)"},

    CallRule{"cupti", "cuptiGetVersion", CallBehaviour::value,
             "give(a0, CUPTI_API_VERSION, CUPTI_SUCCESS, CUPTI_ERROR_INVALID_PARAMETER)"},
    CallRule{"cupti", "cuptiGetResultString", CallBehaviour::value,
             "give(a1, emulated::enumerator_text<CUptiResult, 0, 64>(a0, \"unknown error\"), "
             "CUPTI_SUCCESS, CUPTI_ERROR_INVALID_PARAMETER)"},
    CallRule{"cupti", "cuptiActivityEnable(CudaEventDeviceTimestamps|DriverApi|RuntimeApi)",
             CallBehaviour::set},

    CallRule{"cudart", "cudaStreamGetPriority", CallBehaviour::value,
             "emulated::stream_value(a0, &emulated::StreamState::priority, a1)"},
    CallRule{"cudart", "cudaStreamGetFlags", CallBehaviour::value,
             "emulated::stream_value(a0, &emulated::StreamState::flags, a1)"},
    CallRule{"cudart", "cudaStreamGetId", CallBehaviour::value,
             "emulated::stream_value(a0, &emulated::StreamState::number, a1)"},
    CallRule{"cudart", "cudaStreamGetDevice", CallBehaviour::value,
             "emulated::stream_value(a0, &emulated::StreamState::device, a1)"},
};

bool is_output(const Parameter& parameter) {
  return parameter.kind == ValueKind::pointer && !parameter.pointee_constant;
}

/// Returns the positions of the outputs whose names match `pattern`.
std::vector<std::size_t> outputs(const Prototype& prototype, const std::regex& pattern,
                                 bool integers_only) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < prototype.parameters.size(); ++i) {
    const Parameter& parameter = prototype.parameters[i];
    if (is_output(parameter) && parameter.pointee_complete &&
        (!integers_only || parameter.pointee_kind == ValueKind::integer) &&
        std::regex_match(parameter.name, pattern)) {
      found.push_back(i);
    }
  }
  return found;
}

/// Returns true if the prototype has the parameters that the rule's behaviour requires, and stores
/// their positions.
bool fits(const DeviceFamily& family, const CallRule& rule, const Prototype& prototype,
          CallDecision& decision) {
  decision = {.behaviour = rule.behaviour};
  const bool gives_status = prototype.result == family.status;
  const auto& parameters = prototype.parameters;
  switch (rule.behaviour) {
    case CallBehaviour::unimplemented:
    case CallBehaviour::implemented:
      return true;
    case CallBehaviour::value:
      decision.value = rule.detail;
      return prototype.result != "void";
    case CallBehaviour::create:
      for (std::size_t i = 0; i < parameters.size(); ++i)
        if (is_output(parameters[i]) && parameters[i].pointee_kind == ValueKind::pointer)
          decision.filled.push_back(i);
      return gives_status && decision.filled.size() == 1;
    case CallBehaviour::destroy:
      decision.filled = {0};
      return gives_status && parameters.size() == 1 && parameters[0].kind == ValueKind::pointer;
    case CallBehaviour::size:
      decision.filled = outputs(prototype, std::regex(std::string(rule.detail)), true);
      return gives_status && !decision.filled.empty();
    case CallBehaviour::compute: {
      if (!rule.detail.empty())
        decision.filled = outputs(prototype, std::regex(std::string(rule.detail)), false);
      for (std::size_t i = 0; i < parameters.size(); ++i)
        if (!rule.count.empty() && parameters[i].name == rule.count) decision.count = i;
      if (!rule.count.empty() && !decision.count) return false;
      // The parameter for a new handle is in host memory.
      const bool makes_handle = std::ranges::any_of(parameters, [](const Parameter& parameter) {
        return is_output(parameter) && parameter.pointee_kind == ValueKind::pointer &&
               parameter.name.find("rray") == std::string::npos;
      });
      return gives_status && !makes_handle;
    }
    case CallBehaviour::set:
      return gives_status && std::ranges::none_of(parameters, [](const Parameter& parameter) {
               return is_output(parameter) && parameter.pointee_kind == ValueKind::pointer;
             });
  }
  return false;
}

}  // namespace

CallDecision decide(const DeviceFamily& family, const Prototype& prototype) {
  static const std::vector<std::pair<CallRule, std::regex>> rules = [] {
    std::vector<std::pair<CallRule, std::regex>> compiled;
    compiled.reserve(std::size(kRules));
    for (const CallRule& rule : kRules)
      compiled.emplace_back(rule, std::regex(std::string(rule.pattern)));
    return compiled;
  }();
  for (const auto& [rule, pattern] : rules) {
    CallDecision decision;
    if (rule.family == family.name && std::regex_match(prototype.name, pattern) &&
        fits(family, rule, prototype, decision))
      return decision;
  }
  return {};
}

}  // namespace optrace

#include "gpu/generator/call_rules.h"

#include <algorithm>
#include <array>
#include <regex>
#include <string>
#include <utility>

namespace optrace {
namespace {

// Names from the libraries' documentation. Functions that return other host values than a handle, a
// size or a result match no rule; they need an individual implementation.
constexpr std::string_view kWorkspace =
    "(lwork|lwork_bytes|Lwork|l_?work(OnDevice|OnHost)?|.*[bB]ufferSize(InBytes|OnDevice|OnHost)?"
    "|workspaceInBytes(OnDevice|OnHost)?|workspace_?[sS]izes?(InBytes)?|sizeInBytes|workSize"
    "|pBufferSize.*)";
constexpr std::string_view kInfo = "(d?_?[iI]nfo|devInfo|d_info)";

constexpr std::array kRules = {
    // cublasSetStream_v2, cublasSetMathMode; but cublasSetMatrix and cublasSetVector copy.
    CallRule{"cublas", "cublasCreate_v2", CallBehaviour::create},
    CallRule{"cublas", "cublasDestroy_v2", CallBehaviour::destroy},
    CallRule{"cublas",
             "cublasSet(Stream|Workspace|PointerMode|AtomicsMode|MathMode|SmCountTarget)(_v2)?",
             CallBehaviour::set},
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

    CallRule{"cublaslt", "cublasLtCreate", CallBehaviour::create},
    CallRule{"cublaslt", "cublasLtDestroy", CallBehaviour::destroy},

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
    CallRule{"cudnn", "cudnnCreate[A-Za-z0-9]*", CallBehaviour::create},
    CallRule{"cudnn", "cudnnDestroy[A-Za-z0-9]*", CallBehaviour::destroy},
    CallRule{"cudnn", "cudnnGet(Version|MaxDeviceVersion)", CallBehaviour::value, "CUDNN_VERSION"},
    CallRule{"cudnn", "cudnnGetCudartVersion", CallBehaviour::value, "CUDART_VERSION"},
    CallRule{"cudnn", "cudnnGetErrorString", CallBehaviour::value,
             "\"an error of the emulated cuDNN\""},

    CallRule{"cusparse", "cusparseGetError(Name|String)", CallBehaviour::value,
             "\"an error of the emulated cuSPARSE\""},
    CallRule{"cublas", "cublasGetStatus(Name|String)", CallBehaviour::value,
             "\"an error of the emulated cuBLAS\""},
    CallRule{"cublaslt", "cublasLtGetStatus(Name|String)", CallBehaviour::value,
             "\"an error of the emulated cuBLAS\""},
    CallRule{"cublaslt", "cublasLtGetCudartVersion", CallBehaviour::value, "CUDART_VERSION"},
    CallRule{"nccl", "ncclGetErrorString", CallBehaviour::value,
             "\"an error of the emulated NCCL\""},
    CallRule{"nccl",
             "ncclRecv|ncclSend|nccl(All(Gather|Reduce|toAll)|Broadcast|Bcast|Gather|Scatter|Reduce"
             "|ReduceScatter)",
             CallBehaviour::compute},
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
      return prototype.result != "void" && !gives_status;
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

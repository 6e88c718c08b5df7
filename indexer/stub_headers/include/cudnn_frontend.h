// Stand-in for NVIDIA's cudnn_frontend, which no wheel contains and which takes a compiler half a
// minute to parse. Declares the names that PyTorch uses, so that the functions around them have
// their types and the calls of cuDNN itself are found. Never compiled to code.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <cudnn.h>

namespace nlohmann {
class json {};
}  // namespace nlohmann

namespace cudnn_frontend {

class OpaqueBackendPointer {
 public:
  cudnnBackendDescriptor_t get_backend_descriptor() const;
};
using ManagedOpaqueDescriptor = std::shared_ptr<OpaqueBackendPointer>;
using EngineConfigList = std::vector<ManagedOpaqueDescriptor>;
using feature_vector_t = std::vector<std::int64_t>;

class cudnnException : public std::exception {
 public:
  cudnnStatus_t getCudnnStatus() const;
};

// The members common to all descriptors and lists.
class stand_in_descriptor {
 public:
  std::string describe() const;
  cudnnStatus_t get_status() const;
  const char* get_error() const;
  ManagedOpaqueDescriptor get_desc() const;
  cudnnBackendDescriptor_t get_raw_desc() const;
};

class Tensor_v8 : public stand_in_descriptor {};
class ConvDesc_v8 : public stand_in_descriptor {};
class PointWiseDesc_v8 : public stand_in_descriptor {};
class MatMulDesc_v8 : public stand_in_descriptor {};
class VariantPack_v8 : public stand_in_descriptor {};
class EngineConfig_v8 : public stand_in_descriptor {};
class Operation_v8 : public stand_in_descriptor {
 public:
  const ManagedOpaqueDescriptor& getOutputTensor() const;
};
class OperationGraph_v8 : public stand_in_descriptor {
 public:
  std::string getTag() const;
  feature_vector_t getFeatureVector() const;
};
class ExecutionPlan_v8 : public stand_in_descriptor {
 public:
  std::int64_t getWorkspaceSize() const;
  const std::string& getTag() const;
};
class EngineHeuristics_v8 : public stand_in_descriptor {
 public:
  std::int64_t getEngineConfigCount() const;
  EngineConfigList& getEngineConfig(std::int64_t count = 1);
};
class EngineFallbackList_v8 : public stand_in_descriptor {
 public:
  EngineConfigList& getFallbackList();
};

using Tensor = Tensor_v8;
using ConvDesc = ConvDesc_v8;
using PointWiseDesc = PointWiseDesc_v8;
using MatMulDesc = MatMulDesc_v8;
using VariantPack = VariantPack_v8;
using EngineConfig = EngineConfig_v8;
using Operation = Operation_v8;
using OperationGraph = OperationGraph_v8;
using ExecutionPlan = ExecutionPlan_v8;
using EngineHeuristics = EngineHeuristics_v8;
using EngineFallbackList = EngineFallbackList_v8;

using executionPlans_t = std::vector<ExecutionPlan>;
using Predicate = std::function<bool(const ExecutionPlan&)>;
using GeneratorSource = std::function<EngineConfigList(OperationGraph&)>;

// Every setter accepts any arguments.
template <typename Built>
class stand_in_builder {
 public:
  stand_in_builder() = default;
  explicit stand_in_builder(cudnnBackendDescriptorType_t kind);
  Built build();
#define OPTRACE_STAND_IN_PART(name) \
  template <typename... Values>     \
  stand_in_builder& name(Values&&... values);
  OPTRACE_STAND_IN_PART(setAlignment)
  OPTRACE_STAND_IN_PART(setAlpha)
  OPTRACE_STAND_IN_PART(setAlpha2)
  OPTRACE_STAND_IN_PART(setBeta)
  OPTRACE_STAND_IN_PART(setComputeType)
  OPTRACE_STAND_IN_PART(setDataPointers)
  OPTRACE_STAND_IN_PART(setDataType)
  OPTRACE_STAND_IN_PART(setDilation)
  OPTRACE_STAND_IN_PART(setDim)
  OPTRACE_STAND_IN_PART(setEngineConfig)
  OPTRACE_STAND_IN_PART(setHandle)
  OPTRACE_STAND_IN_PART(setHeurMode)
  OPTRACE_STAND_IN_PART(setId)
  OPTRACE_STAND_IN_PART(setMathMode)
  OPTRACE_STAND_IN_PART(setMathPrecision)
  OPTRACE_STAND_IN_PART(setMode)
  OPTRACE_STAND_IN_PART(setNDims)
  OPTRACE_STAND_IN_PART(setOperation)
  OPTRACE_STAND_IN_PART(setOperationGraph)
  OPTRACE_STAND_IN_PART(setPostPadding)
  OPTRACE_STAND_IN_PART(setPrePadding)
  OPTRACE_STAND_IN_PART(setStrides)
  OPTRACE_STAND_IN_PART(setUids)
  OPTRACE_STAND_IN_PART(setVirtual)
  OPTRACE_STAND_IN_PART(setWorkspacePointer)
  OPTRACE_STAND_IN_PART(setaMatDesc)
  OPTRACE_STAND_IN_PART(setbDesc)
  OPTRACE_STAND_IN_PART(setbMatDesc)
  OPTRACE_STAND_IN_PART(setcDesc)
  OPTRACE_STAND_IN_PART(setcMatDesc)
  OPTRACE_STAND_IN_PART(setdwDesc)
  OPTRACE_STAND_IN_PART(setdxDesc)
  OPTRACE_STAND_IN_PART(setdyDesc)
  OPTRACE_STAND_IN_PART(setmatmulDesc)
  OPTRACE_STAND_IN_PART(setpwDesc)
  OPTRACE_STAND_IN_PART(setwDesc)
  OPTRACE_STAND_IN_PART(setxDesc)
  OPTRACE_STAND_IN_PART(setyDesc)
#undef OPTRACE_STAND_IN_PART
};

using TensorBuilder = stand_in_builder<Tensor>;
using ConvDescBuilder = stand_in_builder<ConvDesc>;
using PointWiseDescBuilder = stand_in_builder<PointWiseDesc>;
using MatMulDescBuilder = stand_in_builder<MatMulDesc>;
using VariantPackBuilder = stand_in_builder<VariantPack>;
using OperationBuilder = stand_in_builder<Operation>;
using OperationGraphBuilder = stand_in_builder<OperationGraph>;
using ExecutionPlanBuilder = stand_in_builder<ExecutionPlan>;
using EngineHeuristicsBuilder = stand_in_builder<EngineHeuristics>;
using EngineFallbackListBuilder = stand_in_builder<EngineFallbackList>;

class EngineConfigGenerator {
 public:
  EngineConfigGenerator(int count, const GeneratorSource* sources);
  EngineConfigList generate_engine_config(OperationGraph& graph);
  executionPlans_t cudnnGetPlan(cudnnHandle_t handle, OperationGraph& graph);
  executionPlans_t cudnnGetPlan(cudnnHandle_t handle, OperationGraph& graph, Predicate predicate);
};

class ExecutionPlanCache {};

enum class CudnnFindSamplingTechnique {
  CUDNN_FIND_SAMPLE_ONCE,
  CUDNN_FIND_SAMPLE_MEDIAN_OF_THREE,
  CUDNN_FIND_SAMPLE_TILL_STABLE
};

template <CudnnFindSamplingTechnique technique>
executionPlans_t time_sorted_plan(cudnnHandle_t handle, executionPlans_t plans,
                                  const VariantPack& pack, std::size_t limit = 0);

template <cudnnBackendNumericalNote_t note>
bool hasNumericalNote(cudnnBackendDescriptor_t config);

bool load_from_config(nlohmann::json& handle, const std::string& errata);

template <typename Call>
bool check_errata(const nlohmann::json& handle, const std::string& plan, cudnnHandle_t cudnn,
                  Call initialized);

void filter(EngineConfigList& from, EngineConfigList& to,
            std::function<bool(cudnnBackendDescriptor_t)> predicate);

}  // namespace cudnn_frontend

// The graph ("backend") API of the emulated libcudnn. Descriptors store every attribute that is
// set, including those of newer versions, and return it. The attributes computed by the library
// (engines, notes, sizes) are set when a descriptor is finalized. Executing a plan records the
// graph.
//
// The choice of the real heuristics is unknown without them. The emulated ones return, for
// convolutions, the engines that are always available according to cudnn_frontend
// (cudnn_frontend_EngineFallbackList.h): 0, 1 and one with tensor cores; for all other graphs one
// engine, 0. Records contain "heuristic": "emulated".

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cudnn.h>

#include "gpu/arguments/call_values.h"
#include "gpu/arguments/cudnn_graph.h"
#include "gpu/arguments/enum_names.h"
#include "gpu/emulated/libraries/cudnn/cudnn_descriptors.h"

namespace optrace::emulated {
namespace {

/// Target of a cudnnBackendDescriptor_t.
struct Descriptor {
  std::shared_ptr<Content> content;
};

bool is_fp8(cudnnDataType_t type) {
  return type == CUDNN_DATA_FP8_E4M3 || type == CUDNN_DATA_FP8_E5M2;
}

/// True for an attention operation with a subgraph, or two matrix products around a softmax.
bool is_attention(const Content& graph) {
  int matmuls = 0;
  int reductions = 0;
  for (const auto& operation : operations(graph)) {
    if (middle_name(operation->type, false).rfind("SDPA", 0) == 0) return true;
    matmuls += operation->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR ? 1 : 0;
    reductions += operation->type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR ||
                          middle_name(operation->type, false) == "SOFTMAX"
                      ? 1
                      : 0;
  }
  return matmuls >= 2 && reductions >= 1;
}

/// Returns the reason why no engine supports the graph on this GPU model, or an empty text. From
/// the cuDNN support matrix and "Supported Graph Patterns": bfloat16 needs 8.0, fp8 8.9,
/// attention 8.0, attention in fp8 9.0.
std::string unsupported(const Content& graph) {
  bool products = false;
  for (const auto& operation : operations(graph)) {
    Convolution found = {};
    const bool convolves = convolution(*operation, found);
    products =
        products || convolves || operation->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
    if (convolves && data_type(*found.x) != data_type(*found.w) && !is_fp8(data_type(*found.x)))
      return "the input's type is not the filter's";
  }
  const bool attention = is_attention(graph);
  std::vector<const Content*> tensors;
  for (const auto& operation : operations(graph)) add_tensors(*operation, tensors);
  for (const Content* const tensor : tensors) {
    const cudnnDataType_t type = data_type(*tensor);
    if (type == CUDNN_DATA_BFLOAT16 && (products || attention) && arch() < kAmpere)
      return "bfloat16 needs compute capability 8.0";
    if (is_fp8(type) && arch() < (attention ? kHopper : kAda))
      return attention ? "attention in fp8 needs compute capability 9.0"
                       : "fp8 needs compute capability 8.9";
  }
  if (attention && arch() < kAmpere) return "attention needs compute capability 8.0";
  return {};
}

/// Engine numbers for convolutions as in cudnn_frontend_EngineFallbackList.h.
constexpr std::int64_t kBasicEngine = 0;
constexpr std::int64_t kPreparedEngine = 1;

std::int64_t tensor_core_engine(cudnnBackendDescriptorType_t operation) {
  switch (operation) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return 28;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return 25;
    default:
      return 20;
  }
}

/// Returns the graph's first convolution, or null.
const Content* first_convolution(const Content& graph) {
  for (const auto& operation : operations(graph)) {
    Convolution found = {};
    if (convolution(*operation, found)) return operation.get();
  }
  return nullptr;
}

/// Half and 8-bit types since Volta and Turing; float (as TF32) and bfloat16 since Ampere.
bool tensor_cores_take(cudnnDataType_t type) {
  if (type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_BFLOAT16) return arch() >= kAmpere;
  return type != CUDNN_DATA_DOUBLE;
}

/// Returns the engines for the heuristic's mode, best first.
std::vector<std::int64_t> engines(const Content& graph, cudnnBackendHeurMode_t mode) {
  const Content* const operation = first_convolution(graph);
  if (operation == nullptr) return {kBasicEngine};
  Convolution found = {};
  convolution(*operation, found);
  std::vector<std::int64_t> list = {kPreparedEngine, kBasicEngine};
  if (tensor_cores_take(data_type(*found.x)))
    list.insert(list.begin(), tensor_core_engine(operation->type));
  if (mode == CUDNN_HEUR_MODE_FALLBACK) std::reverse(list.begin(), list.end());
  return list;
}

std::vector<cudnnBackendNumericalNote_t> numerical_notes(const Content& graph,
                                                         std::int64_t engine) {
  std::vector<cudnnBackendNumericalNote_t> notes;
  const Content* const operation = first_convolution(graph);
  if (operation == nullptr) return notes;
  // As for algorithm 0 of both backward passes, which use atomic additions.
  if (operation->type != CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR &&
      engine == kBasicEngine)
    notes.push_back(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  if (engine > kPreparedEngine) notes.push_back(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  return notes;
}

std::int64_t bytes(const Content& tensor) {
  std::int64_t result = static_cast<std::int64_t>(type_bytes(data_type(tensor)));
  for (const std::int64_t dim : dims(tensor)) result *= dim;
  return result;
}

/// True if the channels are the innermost dimension, as tensor-core kernels require.
bool channels_last(const Content& tensor) {
  const std::vector<std::int64_t> strides = values<std::int64_t>(tensor, CUDNN_ATTR_TENSOR_STRIDES);
  return strides.size() > 1 && strides[1] == 1;
}

/// Returns the workspace size. Tensor-core convolutions of tensors that aren't channels-last
/// convert the three tensors first; other emulated engines need no workspace.
std::int64_t workspace_bytes(const Content& graph, std::int64_t engine) {
  const Content* const operation = first_convolution(graph);
  if (operation == nullptr || engine <= kPreparedEngine) return 0;
  Convolution found = {};
  convolution(*operation, found);
  std::int64_t result = 0;
  for (const Content* const tensor : {found.x, found.w, found.y})
    if (!channels_last(*tensor)) result += bytes(*tensor);
  return result;
}

// Finalizing. Each function returns the reason why the descriptor is invalid, or an empty text.

std::string finalize_tensor(const Content& tensor) {
  const std::vector<std::int64_t> sizes = dims(tensor);
  const std::vector<std::int64_t> strides = values<std::int64_t>(tensor, CUDNN_ATTR_TENSOR_STRIDES);
  for (const int needed :
       {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_ATTR_TENSOR_STRIDES,
        CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT})
    if (find(tensor, needed) == nullptr)
      return "a tensor without " + attribute_key(tensor.type, needed);
  if (sizes.empty() || sizes.size() > CUDNN_DIM_MAX || sizes.size() != strides.size())
    return "a tensor's dimensions and strides do not fit together";
  if (std::any_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size <= 0; }))
    return "a tensor's dimension is not positive";
  if (value<std::int64_t>(tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 0) <= 0)
    return "a tensor's alignment is not positive";
  return {};
}

struct Windows {
  std::vector<std::int64_t> before;
  std::vector<std::int64_t> after;
  std::vector<std::int64_t> strides;
  std::vector<std::int64_t> dilations;
};

Windows windows(const Content& convolution) {
  return {values<std::int64_t>(convolution, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
          values<std::int64_t>(convolution, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS),
          values<std::int64_t>(convolution, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
          values<std::int64_t>(convolution, CUDNN_ATTR_CONVOLUTION_DILATIONS)};
}

std::string finalize_convolution(const Content& convolution) {
  const Windows window = windows(convolution);
  const auto spatial = static_cast<std::size_t>(
      value<std::int64_t>(convolution, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0));
  if (spatial == 0 || window.before.size() != spatial || window.after.size() != spatial ||
      window.strides.size() != spatial || window.dilations.size() != spatial)
    return "paddings, strides or dilations are not as many as the spatial dimensions";
  for (std::size_t i = 0; i < spatial; ++i)
    if (window.strides[i] < 1 || window.dilations[i] < 1)
      return "a convolution's stride or dilation is not positive";
  return {};
}

std::string finalize_convolution_operation(const Convolution& found) {
  if (found.x == nullptr || found.w == nullptr || found.y == nullptr || found.descriptor == nullptr)
    return "a convolution without one of its tensors or its descriptor";
  const std::vector<std::int64_t> x = dims(*found.x);
  const std::vector<std::int64_t> w = dims(*found.w);
  const std::vector<std::int64_t> y = dims(*found.y);
  const Windows window = windows(*found.descriptor);
  const std::size_t spatial = window.strides.size();
  if (x.size() != y.size() || x.size() != w.size() || x.size() < spatial + 2)
    return "the dimensions of a convolution's tensors do not fit its spatial dimensions";
  // With groups as a separate dimension there are more; those cases are not checked.
  if (x.size() != spatial + 2) return {};
  if (x[0] != y[0]) return "the input's batch is not the output's";
  if (x[1] % w[1] != 0 || w[0] % (x[1] / w[1]) != 0)
    return "the channels do not divide into the filter's groups";
  if (y[1] != w[0]) return "the output's channels are not the filter's";
  for (std::size_t i = 0; i < spatial; ++i) {
    const std::int64_t extent = window.dilations[i] * (w[i + 2] - 1) + 1;
    const std::int64_t size = x[i + 2] + window.before[i] + window.after[i] - extent;
    if (size < 0 || size / window.strides[i] + 1 != y[i + 2])
      return "spatial dimension " + std::to_string(i) + " of a convolution does not fit";
  }
  return {};
}

std::string finalize_matmul(const Content& operation) {
  const Content* const a = descriptor(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  const Content* const b = descriptor(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  const Content* const c = descriptor(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  if (a == nullptr || b == nullptr || c == nullptr) return "a matmul without one of its tensors";
  const std::vector<std::int64_t> left = dims(*a);
  const std::vector<std::int64_t> right = dims(*b);
  const std::vector<std::int64_t> out = dims(*c);
  if (left.size() < 2 || right.size() < 2 || out.size() < 2)
    return "a matmul's tensor has fewer than 2 dimensions";
  const auto from_end = [](const std::vector<std::int64_t>& sizes, std::size_t i) {
    return sizes[sizes.size() - i];
  };
  if (from_end(left, 1) != from_end(right, 2)) return "a matmul's inner dimensions differ";
  if (from_end(out, 2) != from_end(left, 2) || from_end(out, 1) != from_end(right, 1))
    return "a matmul's output does not fit its inputs";
  return {};
}

std::string finalize_graph(Content& graph) {
  if (operations(graph).empty()) return "a graph without operations";
  for (const auto& operation : operations(graph))
    if (!is_operation(operation->type)) return "an item of a graph is not an operation";
  const Content* const convolution = first_convolution(graph);
  const std::int64_t count = convolution == nullptr ? 1 : tensor_core_engine(convolution->type) + 1;
  set<std::int64_t>(graph, CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64,
                    {count});
  return {};
}

std::string finalize_engine(Content& engine) {
  const Content* const graph = descriptor(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  if (graph == nullptr) return "an engine without a graph";
  const auto index = value<std::int64_t>(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, -1);
  if (index < 0 ||
      index >= value<std::int64_t>(*graph, CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, 0))
    return "no engine of that index";
  set(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
      numerical_notes(*graph, index));
  set(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
      std::vector<cudnnBackendBehaviorNote_t>{});
  set(engine, CUDNN_ATTR_ENGINE_KNOB_INFO, Contents{});
  set(engine, CUDNN_ATTR_ENGINE_LAYOUT_INFO, Contents{});
  return {};
}

std::string finalize_engine_config(Content& config) {
  const Content* const engine = descriptor(config, CUDNN_ATTR_ENGINECFG_ENGINE);
  if (engine == nullptr) return "an engine configuration without an engine";
  if (find(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES) == nullptr)
    set(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, Contents{});
  set(config, CUDNN_ATTR_ENGINECFG_INTERMEDIATE_INFO, Contents{});
#if CUDNN_VERSION >= 90200
  const Content* const graph = descriptor(*engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  const auto index = value<std::int64_t>(*engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0);
  set<std::int64_t>(config, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                    {workspace_bytes(*graph, index)});
  // The value for an emulated engine is unknown; 0 is valid on every GPU model.
  set<std::int32_t>(config, CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED, CUDNN_TYPE_INT32, {0});
#endif
  return {};
}

std::string finalize_heuristics(Content& heuristics) {
  const Attribute* const held = find(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  if (held == nullptr || held->descriptors.empty()) return "heuristics without a graph";
  if (find(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE) == nullptr) return "heuristics without a mode";
  const auto graph = held->descriptors.front();
  Contents results;
  const std::string why = unsupported(*graph);
  if (!why.empty()) {
    refuse("cudnnBackendFinalize", CUDNN_STATUS_NOT_SUPPORTED, why);
    set(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, results);
    return {};  // As in the real library, no engine configuration is found.
  }
  for (const std::int64_t index :
       engines(*graph, value(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A))) {
    const auto engine = std::make_shared<Content>();
    engine->type = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
    set(*engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, Contents{graph});
    set<std::int64_t>(*engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, {index});
    finalize_engine(*engine);
    engine->finalized = true;
    const auto config = std::make_shared<Content>();
    config->type = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
    set(*config, CUDNN_ATTR_ENGINECFG_ENGINE, Contents{engine});
    finalize_engine_config(*config);
    config->finalized = true;
    results.push_back(config);
  }
  set(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, std::move(results));
  return {};
}

std::string finalize_plan(Content& plan) {
  const Content* engine = nullptr;
  const Content* graph = nullptr;
  if (!plan_engine(plan, engine, graph)) return "a plan without an engine configuration";
  const auto index = value<std::int64_t>(*engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0);
  set<std::int64_t>(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                    {workspace_bytes(*graph, index)});
  set(plan, CUDNN_ATTR_EXECUTION_PLAN_COMPUTED_INTERMEDIATE_UIDS, CUDNN_TYPE_INT64,
      std::vector<std::int64_t>{});
  return {};
}

std::string finalize_pack(const Content& pack) {
  const Attribute* const uids = find(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const Attribute* const pointers = find(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (uids == nullptr || pointers == nullptr || uids->count != pointers->count)
    return "a variant pack's pointers are not as many as its tensors";
  return {};
}

/// Sets the computed attributes. Returns the reason why the descriptor is invalid, or an empty
/// text.
std::string finalize(Content& content) {
  Convolution found = {};
  if (convolution(content, found)) return finalize_convolution_operation(found);
  switch (content.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return finalize_tensor(content);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      return finalize_convolution(content);
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return finalize_matmul(content);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      return finalize_graph(content);
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
      return finalize_engine(content);
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
      return finalize_engine_config(content);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      return finalize_heuristics(content);
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      return finalize_plan(content);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return finalize_pack(content);
    default:
      return {};
  }
}

/// Returns the reason why the variant pack does not match the plan, or an empty text.
std::string missing(const Content& plan, const Content& graph, const Content& pack) {
  const std::vector<std::int64_t> uids =
      values<std::int64_t>(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const std::set<std::int64_t> given(uids.begin(), uids.end());
  std::vector<const Content*> tensors;
  for (const auto& operation : operations(graph)) add_tensors(*operation, tensors);
  for (const Content* const tensor : tensors) {
    // Constants and tensors between operations need no memory.
    if (value<char>(*tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0) != 0) continue;
#if CUDNN_VERSION >= 92200
    if (find(*tensor, CUDNN_ATTR_TENSOR_CONSTANT_VALUE) != nullptr) continue;
#endif
    const auto uid = value<std::int64_t>(*tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
    if (given.count(uid) == 0)
      return "the variant pack lacks the tensor of id " + std::to_string(uid);
  }
  if (value<std::int64_t>(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 0) > 0 &&
      value<void*>(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, nullptr) == nullptr)
    return "the variant pack lacks the workspace";
  return {};
}

Content* content_of(cudnnBackendDescriptor_t descriptor) {
  return descriptor == nullptr ? nullptr : static_cast<Descriptor*>(descriptor)->content.get();
}

/// Names the attribute and the descriptor's type for an error message.
std::string of(const Content& content, int attribute) {
  const std::string_view name = attribute_full_name(attribute);
  return (name.empty() ? std::to_string(attribute) : std::string(name)) + " of a " +
         std::string(type_full_name(content.type));
}

/// Returns descriptors: the program has created them, and they get the content of the stored ones.
cudnnStatus_t give_descriptors(const Attribute& attribute, std::int64_t count, void* elements) {
  auto* const made = static_cast<cudnnBackendDescriptor_t*>(elements);
  for (std::int64_t i = 0; i < count; ++i) {
    auto* const target = static_cast<Descriptor*>(made[i]);
    const auto& held = attribute.descriptors[static_cast<std::size_t>(i)];
    if (target == nullptr) return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a null descriptor");
    if (target->content->type != held->type)
      return wrong(CUDNN_STATUS_BAD_PARAM, "a descriptor of another kind than is held");
    *target->content = *held;
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace optrace::emulated

using namespace optrace::emulated;

extern "C" {

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* descriptor) {
  if (descriptor == nullptr)
    return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "cudnnBackendCreateDescriptor: null");
  if (type_full_name(type).empty())
    return refuse("cudnnBackendCreateDescriptor", CUDNN_STATUS_NOT_SUPPORTED,
                  "no such kind of descriptor: " + std::to_string(type));
  auto* const made = new (std::nothrow) Descriptor;
  if (made == nullptr) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
  made->content = std::make_shared<Content>();
  made->content->type = type;
  *descriptor = made;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<Descriptor*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void* elements) {
  Content* const content = content_of(descriptor);
  if (content == nullptr || (elements == nullptr && count > 0))
    return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "cudnnBackendSetAttribute: null");
  if (content->finalized)
    return wrong(CUDNN_STATUS_NOT_INITIALIZED, "already finalized: " + of(*content, name));
  if (!belongs(content->type, name))
    return refuse("cudnnBackendSetAttribute", CUDNN_STATUS_NOT_SUPPORTED,
                  "no such attribute: " + of(*content, name));
  if (count < 0) return wrong(CUDNN_STATUS_BAD_PARAM, "a negative count: " + of(*content, name));
#if CUDNN_VERSION >= 90000
  if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION) {
    unimplemented("cudnnBackendSetAttribute(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION)");
    return wrong(CUDNN_STATUS_NOT_SUPPORTED, "plans can't be read from JSON");
  }
#endif
  Attribute made;
  made.type = type;
  made.count = count;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (int64_t i = 0; i < count; ++i) {
      const auto held =
          static_cast<Descriptor*>(static_cast<const cudnnBackendDescriptor_t*>(elements)[i]);
      if (held == nullptr)
        return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "null: " + of(*content, name));
      if (!held->content->finalized)
        return wrong(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "not finalized: " + of(*content, name));
      made.descriptors.push_back(held->content);
    }
  } else {
    const char* const bytes = static_cast<const char*>(elements);
    made.bytes.assign(bytes, bytes + static_cast<std::size_t>(count) * element_bytes(type));
  }
  content->attributes[name] = std::move(made);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t requested,
                                       int64_t* count, void* elements) {
  const Content* const content = content_of(descriptor);
  if (content == nullptr)
    return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "cudnnBackendGetAttribute: null");
  if (!content->finalized)
    return wrong(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "not finalized: " + of(*content, name));
  if (!belongs(content->type, name))
    return refuse("cudnnBackendGetAttribute", CUDNN_STATUS_NOT_SUPPORTED,
                  "no such attribute: " + of(*content, name));
  const Attribute* const found = find(*content, name);
  if (found == nullptr) {
    // Not set, and not computed by the emulation.
    if (count == nullptr || requested > 0)
      return wrong(CUDNN_STATUS_BAD_PARAM, "not set: " + of(*content, name));
    *count = 0;
    return CUDNN_STATUS_SUCCESS;
  }
  if (found->type != type)
    return wrong(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "of another type: " + of(*content, name));
  const bool counts_only = elements == nullptr || requested <= 0;
  const int64_t given = counts_only ? found->count : std::min(requested, found->count);
  // Number available or copied. cudnn_frontend keeps this number of a heuristic's results,
  // independent of the capacity it passed.
  if (count != nullptr) *count = given;
  if (counts_only) return CUDNN_STATUS_SUCCESS;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) return give_descriptors(*found, given, elements);
  if (given > 0)
    std::memcpy(elements, found->bytes.data(),
                static_cast<std::size_t>(given) * element_bytes(type));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  Content* const content = content_of(descriptor);
  if (content == nullptr)
    return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "cudnnBackendFinalize: null");
  if (const std::string why = finalize(*content); !why.empty())
    return refuse("cudnnBackendFinalize", CUDNN_STATUS_BAD_PARAM, why);
  content->finalized = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  const Content* const the_plan = content_of(plan);
  const Content* const the_pack = content_of(pack);
  if (handle == nullptr || the_plan == nullptr || the_pack == nullptr)
    return wrong(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "cudnnBackendExecute: null");
  if (!the_plan->finalized || !the_pack->finalized)
    return wrong(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "cudnnBackendExecute: not finalized");
  const Content* engine = nullptr;
  const Content* graph = nullptr;
  if (!plan_engine(*the_plan, engine, graph))
    return wrong(CUDNN_STATUS_BAD_PARAM, "cudnnBackendExecute: the plan has no engine");
  if (const std::string why = missing(*the_plan, *graph, *the_pack); !why.empty())
    return refuse("cudnnBackendExecute", CUDNN_STATUS_BAD_PARAM, why);
  record_plan("cudnnBackendExecute", *the_plan, *engine, *graph, "emulated");
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"

#include "gpu/arguments/cudnn_graph.h"

#include <algorithm>
#include <utility>

#include "gpu/arguments/enum_names.h"

namespace optrace::emulated {

// Names.

std::string type_name(cudnnDataType_t type) {
  // The enumerators span 0 to 15 in cuDNN 9.1, 0 to 31 in versions with more types.
#if CUDNN_VERSION >= 90700
  constexpr std::size_t kSpan = 32;
#else
  constexpr std::size_t kSpan = 16;
#endif
  return short_name(enumerator_name<cudnnDataType_t, 0, kSpan>(type), "CUDNN_DATA_", type);
}

std::string_view type_full_name(cudnnBackendDescriptorType_t type) {
  // Enumerators span 0 to 63.
  return enumerator_name<cudnnBackendDescriptorType_t, 0, 64>(type);
}

std::string middle_name(cudnnBackendDescriptorType_t type, bool operation) {
  std::string_view name = type_full_name(type);
  constexpr std::string_view kPrefix = "CUDNN_BACKEND_";
  constexpr std::string_view kOperation = "OPERATION_";
  constexpr std::string_view kSuffix = "_DESCRIPTOR";
  if (name.size() <= kPrefix.size() + kSuffix.size()) return {};
  name = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  if (!operation && name.substr(0, kOperation.size()) == kOperation)
    name.remove_prefix(kOperation.size());
  return std::string(name);
}

bool is_operation(cudnnBackendDescriptorType_t type) {
  return middle_name(type, true).rfind("OPERATION_", 0) == 0;
}

std::string_view attribute_full_name(int attribute) {
#if CUDNN_VERSION >= 90200
  constexpr std::size_t kEnd = 3500;
#else
  constexpr std::size_t kEnd = 2400;
#endif
  return enumerator_name<cudnnBackendAttributeName_t, 0, kEnd>(
      static_cast<cudnnBackendAttributeName_t>(attribute));
}

namespace {

/// Returns the possible prefixes of a descriptor's attribute names:
/// "CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_".
std::vector<std::string> attribute_prefixes(cudnnBackendDescriptorType_t type) {
  const std::string name = middle_name(type, true);
  const std::pair<std::string_view, std::string_view> kShortened[] = {
      {"BACKWARD", "BWD"},
      {"FORWARD", "FWD"},
      {"GEN_STATS", "GENSTATS"},
      {"BN_FINALIZE_STATISTICS", "BN_FINALIZE"}};
  std::vector<std::string> prefixes = {"CUDNN_ATTR_" + name + "_"};
  for (const auto& [full, cut] : kShortened) {
    const std::size_t at = name.find(full);
    if (at == std::string::npos) continue;
    std::string other = name;
    other.replace(at, full.size(), cut);
    prefixes.push_back("CUDNN_ATTR_" + other + "_");
  }
  return prefixes;
}

}  // namespace

bool belongs(cudnnBackendDescriptorType_t type, int attribute) {
  const std::string_view name = attribute_full_name(attribute);
  if (name.empty()) return false;
  for (const std::string& prefix : attribute_prefixes(type))
    if (name.substr(0, prefix.size()) == prefix) return true;
  const std::string kind = middle_name(type, true);
  // One attribute of CONTRACT_BAND_MATRIX lacks "OPERATION_..._MATRIX" in its name.
  if (kind == "OPERATION_CONTRACT_BAND_MATRIX")
    return name.find("CONTRACT_BAND_") != std::string_view::npos;
  return type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR &&
         attribute == CUDNN_ATTR_ENGINE_SM_COUNT_TARGET;
}

std::string attribute_key(cudnnBackendDescriptorType_t type, int attribute) {
  const std::string_view name = attribute_full_name(attribute);
  std::string key = short_name(name, "CUDNN_ATTR_", attribute);
  for (const std::string& prefix : attribute_prefixes(type))
    if (name.substr(0, prefix.size()) == prefix) key = short_name(name, prefix, attribute);
  for (const std::string_view suffix : {"_descriptor", "_desc", "desc"}) {
    if (key.size() <= suffix.size() ||
        key.compare(key.size() - suffix.size(), suffix.size(), suffix) != 0)
      continue;
    key.resize(key.size() - suffix.size());
    break;
  }
  return key;
}

// Attributes.

std::size_t element_bytes(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
      return 1;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    case CUDNN_TYPE_FRACTION:
      return sizeof(cudnnFraction_t);
    default:  // Enumerations, int32 and float.
      return 4;
  }
}

std::vector<std::int64_t> dims(const Content& tensor) {
  return values<std::int64_t>(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS);
}

cudnnDataType_t data_type(const Content& tensor) {
  return value(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
}

// Records.

namespace {

/// Returns the enumerator's name for an attribute of `type`; empty if the type is not an
/// enumeration or its names are not needed.
std::string enumerator_text(cudnnBackendAttributeType_t type, std::int32_t number) {
  switch (type) {
    case CUDNN_TYPE_DATA_TYPE:
      return type_name(static_cast<cudnnDataType_t>(number));
    case CUDNN_TYPE_CONVOLUTION_MODE:
      return short_name(enumerator_name<cudnnConvolutionMode_t, 0, 2>(
                            static_cast<cudnnConvolutionMode_t>(number)),
                        "CUDNN_", number);
    case CUDNN_TYPE_POINTWISE_MODE:
      return short_name(
          enumerator_name<cudnnPointwiseMode_t, 0, 700>(static_cast<cudnnPointwiseMode_t>(number)),
          "CUDNN_POINTWISE_", number);
    case CUDNN_TYPE_REDUCTION_OPERATOR_TYPE:
      return short_name(
          enumerator_name<cudnnReduceTensorOp_t, 0, 9>(static_cast<cudnnReduceTensorOp_t>(number)),
          "CUDNN_REDUCE_TENSOR_", number);
    case CUDNN_TYPE_RESAMPLE_MODE:
      return short_name(
          enumerator_name<cudnnResampleMode_t, 0, 5>(static_cast<cudnnResampleMode_t>(number)),
          "CUDNN_RESAMPLE_", number);
    case CUDNN_TYPE_PADDING_MODE:
      return short_name(
          enumerator_name<cudnnPaddingMode_t, 0, 3>(static_cast<cudnnPaddingMode_t>(number)),
          "CUDNN_", number);
    case CUDNN_TYPE_NORM_MODE:
      return short_name(enumerator_name<cudnnBackendNormMode_t, 0, 8>(
                            static_cast<cudnnBackendNormMode_t>(number)),
                        "CUDNN_", number);
    case CUDNN_TYPE_NORM_FWD_PHASE:
      return short_name(enumerator_name<cudnnBackendNormFwdPhase_t, 0, 2>(
                            static_cast<cudnnBackendNormFwdPhase_t>(number)),
                        "CUDNN_NORM_FWD_", number);
    case CUDNN_TYPE_RNG_DISTRIBUTION:
      return short_name(enumerator_name<cudnnRngDistribution_t, 0, 3>(
                            static_cast<cudnnRngDistribution_t>(number)),
                        "CUDNN_RNG_DISTRIBUTION_", number);
    case CUDNN_TYPE_TENSOR_REORDERING_MODE:
      return short_name(enumerator_name<cudnnBackendTensorReordering_t, 0, 4>(
                            static_cast<cudnnBackendTensorReordering_t>(number)),
                        "CUDNN_TENSOR_REORDERING_", number);
    default:
      return std::to_string(number);
  }
}

void put_tensor(JsonText& json, const Content& tensor) {
  json.open('{');
  put(json, "dims", dims(tensor));
  put(json, "strides", values<std::int64_t>(tensor, CUDNN_ATTR_TENSOR_STRIDES));
  put(json, "type", type_name(data_type(tensor)));
  put(json, "uid", value<std::int64_t>(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0));
  if (value<char>(tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0) != 0) put(json, "virtual", true);
  if (value<char>(tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, 0) != 0) put(json, "by_value", true);
  json.close('}');
}

void put_content(JsonText& json, const Content& content);

void put_elements(JsonText& json, const Attribute& attribute) {
  for (std::int64_t i = 0; i < attribute.count; ++i) {
    const char* const at =
        attribute.bytes.data() + static_cast<std::size_t>(i) * element_bytes(attribute.type);
    switch (attribute.type) {
      case CUDNN_TYPE_BACKEND_DESCRIPTOR:
        put_content(json, *attribute.descriptors[static_cast<std::size_t>(i)]);
        break;
      case CUDNN_TYPE_INT64: {
        std::int64_t number = 0;
        std::memcpy(&number, at, sizeof number);
        json.number(number);
        break;
      }
      case CUDNN_TYPE_INT32: {
        std::int32_t number = 0;
        std::memcpy(&number, at, sizeof number);
        json.number(static_cast<std::int64_t>(number));
        break;
      }
      case CUDNN_TYPE_FLOAT: {
        float number = 0;
        std::memcpy(&number, at, sizeof number);
        json.number(static_cast<double>(number));
        break;
      }
      case CUDNN_TYPE_DOUBLE: {
        double number = 0;
        std::memcpy(&number, at, sizeof number);
        json.number(number);
        break;
      }
      case CUDNN_TYPE_BOOLEAN:
        json.boolean(*at != 0);
        break;
      case CUDNN_TYPE_FRACTION: {
        cudnnFraction_t fraction = {};
        std::memcpy(&fraction, at, sizeof fraction);
        json.string(std::to_string(fraction.numerator) + "/" +
                    std::to_string(fraction.denominator));
        break;
      }
      default: {
        std::int32_t number = 0;
        std::memcpy(&number, at, sizeof number);
        json.string(enumerator_text(attribute.type, number));
      }
    }
  }
}

/// Dimensions are written as a list even if there is only one.
bool is_list(const Attribute& attribute, const std::string& key) {
  if (attribute.count != 1) return true;
  for (const char* const list : {"paddings", "strides", "dilations", "window_dims", "permutation",
                                 "start_indices", "limit_indices", "inputs"})
    if (key.find(list) != std::string::npos) return true;
  return false;
}

/// Writes the content of a descriptor, except handles and pointers.
void put_attributes(JsonText& json, const Content& content) {
  for (const auto& [name, attribute] : content.attributes) {
    if (attribute.type == CUDNN_TYPE_HANDLE || attribute.type == CUDNN_TYPE_VOID_PTR ||
        attribute.type == CUDNN_TYPE_CHAR)
      continue;
    const std::string key = attribute_key(content.type, name);
    json.key(key.c_str());
    const bool list = is_list(attribute, key);
    if (list) json.open('[');
    put_elements(json, attribute);
    if (list) json.close(']');
  }
}

void put_content(JsonText& json, const Content& content) {
  if (content.type == CUDNN_BACKEND_TENSOR_DESCRIPTOR) {
    put_tensor(json, content);
    return;
  }
  json.open('{');
  put_attributes(json, content);
  json.close('}');
}

/// Returns "convolution backward data" and so on.
std::string operation_name(cudnnBackendDescriptorType_t type) {
  std::string name = short_name(middle_name(type, false), "", type);
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

}  // namespace

// Graphs.

bool convolution(const Content& operation, Convolution& found) {
  int x = 0;
  int w = 0;
  int y = 0;
  int conv = 0;
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      x = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X;
      w = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W;
      y = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y;
      conv = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC;
      break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      x = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX;
      w = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W;
      y = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY;
      conv = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC;
      break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      x = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X;
      w = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW;
      y = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY;
      conv = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC;
      break;
    default:
      return false;
  }
  found = {descriptor(operation, x), descriptor(operation, w), descriptor(operation, y),
           descriptor(operation, conv)};
  return true;
}

const Contents& operations(const Content& graph) {
  static const Contents kNone;
  const Attribute* const found = find(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  return found == nullptr ? kNone : found->descriptors;
}

void add_tensors(const Content& content, std::vector<const Content*>& tensors) {
  for (const auto& [name, attribute] : content.attributes)
    for (const auto& held : attribute.descriptors)
      if (held->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        tensors.push_back(held.get());
      else
        add_tensors(*held, tensors);
}

const Attribute* find(const Content& content, int attribute) {
  const auto found = content.attributes.find(attribute);
  return found == content.attributes.end() ? nullptr : &found->second;
}

const Content* descriptor(const Content& content, int attribute) {
  const Attribute* const found = find(content, attribute);
  return found == nullptr || found->descriptors.empty() ? nullptr
                                                        : found->descriptors.front().get();
}

void set(Content& content, int attribute, Contents descriptors) {
  Attribute& made = content.attributes[attribute];
  made.type = CUDNN_TYPE_BACKEND_DESCRIPTOR;
  made.count = static_cast<std::int64_t>(descriptors.size());
  made.descriptors = std::move(descriptors);
}

bool plan_engine(const Content& plan, const Content*& engine, const Content*& graph) {
  const Content* const config = descriptor(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  engine = config == nullptr ? nullptr : descriptor(*config, CUDNN_ATTR_ENGINECFG_ENGINE);
  graph = engine == nullptr ? nullptr : descriptor(*engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  return graph != nullptr;
}

void record_plan(const char* function, const Content& plan, const Content& engine,
                 const Content& graph, const char* heuristic) {
  Call call(function, "library");
  JsonText& json = call.json();
  json.key("operations");
  json.open('[');
  for (const auto& operation : operations(graph)) {
    json.open('{');
    put(json, "operation", operation_name(operation->type));
    put_attributes(json, *operation);
    Convolution found = {};
    if (convolution(*operation, found)) put(json, "groups", dims(*found.x)[1] / dims(*found.w)[1]);
    json.close('}');
  }
  json.close(']');
  if (find(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX) != nullptr)
    put(json, "engine", value<std::int64_t>(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0));
  if (heuristic != nullptr) put(json, "heuristic", heuristic);
  json.key("knobs");
  json.open('{');
  const Content* const config = descriptor(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const Attribute* const knobs = find(*config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
  for (const auto& knob : knobs == nullptr ? Contents{} : knobs->descriptors) {
    const auto type = value(*knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_KNOB_TYPE_COUNTS);
    put(json,
        short_name(enumerator_name<cudnnBackendKnobType_t, 0, 64>(type), "CUDNN_KNOB_TYPE_", type)
            .c_str(),
        value<std::int64_t>(*knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 0));
  }
  json.close('}');
  put(json, "workspace", value<std::int64_t>(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 0));
  call.record();
}

}  // namespace optrace::emulated

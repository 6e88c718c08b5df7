#pragma once

// Contents of cuDNN's graph ("backend") descriptors, and the record of the graph that a plan runs.

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cudnn.h>

#include "gpu/arguments/call_values.h"

namespace optrace::emulated {

struct Content;
using Contents = std::vector<std::shared_ptr<const Content>>;

struct Attribute {
  cudnnBackendAttributeType_t type = CUDNN_TYPE_INT64;
  std::int64_t count = 0;
  std::vector<char> bytes;  ///< Bytes of the elements, unless they are descriptors.
  /// Descriptors as they were when the attribute was set. They are finalized, so they don't change.
  Contents descriptors;
};

/// Content of a descriptor. It never changes once finalized. Other descriptors share it, because
/// the program may destroy a descriptor that another was made from.
struct Content {
  cudnnBackendDescriptorType_t type = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  bool finalized = false;
  std::map<int, Attribute> attributes;
};

/// Returns "half", "float", "fp8_e4m3" and so on.
std::string type_name(cudnnDataType_t type);

/// Empty for an invalid type.
std::string_view type_full_name(cudnnBackendDescriptorType_t type);

/// Returns "CONVOLUTION_FORWARD" for CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, with
/// the prefix "OPERATION_" if `operation` is true.
std::string middle_name(cudnnBackendDescriptorType_t type, bool operation);

bool is_operation(cudnnBackendDescriptorType_t type);

std::string_view attribute_full_name(int attribute);

/// Returns true if the attribute belongs to this type of descriptor. An attribute without a name is
/// newer than the headers. A heuristic also accepts the engine's attribute for the target number of
/// multiprocessors.
bool belongs(cudnnBackendDescriptorType_t type, int attribute);

/// Returns "x" for CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X or
/// CUDNN_ATTR_OPERATION_POINTWISE_XDESC.
std::string attribute_key(cudnnBackendDescriptorType_t type, int attribute);

/// Size of an element in bytes, from the table of cudnnBackendAttributeType_t in the API reference.
std::size_t element_bytes(cudnnBackendAttributeType_t type);

/// Returns null if the attribute is not set.
const Attribute* find(const Content& content, int attribute);

template <typename Value>
std::vector<Value> values(const Content& content, int attribute) {
  std::vector<Value> result;
  const Attribute* const found = find(content, attribute);
  if (found == nullptr || element_bytes(found->type) != sizeof(Value)) return result;
  result.resize(static_cast<std::size_t>(found->count));
  if (!result.empty())
    std::memcpy(static_cast<void*>(result.data()), found->bytes.data(), found->bytes.size());
  return result;
}

template <typename Value>
Value value(const Content& content, int attribute, Value otherwise) {
  const std::vector<Value> found = values<Value>(content, attribute);
  return found.empty() ? otherwise : found.front();
}

/// Returns the descriptor stored in an attribute, or null if none is set.
const Content* descriptor(const Content& content, int attribute);

template <typename Value>
void set(Content& content, int attribute, cudnnBackendAttributeType_t type,
         const std::vector<Value>& elements) {
  Attribute& made = content.attributes[attribute];
  made.type = type;
  made.count = static_cast<std::int64_t>(elements.size());
  made.bytes.resize(elements.size() * sizeof(Value));
  if (!elements.empty()) std::memcpy(made.bytes.data(), elements.data(), made.bytes.size());
}

void set(Content& content, int attribute, Contents descriptors);

std::vector<std::int64_t> dims(const Content& tensor);

cudnnDataType_t data_type(const Content& tensor);

struct Convolution {
  const Content* x;
  const Content* w;
  const Content* y;
  const Content* descriptor;
};

/// Finds the tensors of a convolution in any direction. Returns false for other operations.
bool convolution(const Content& operation, Convolution& found);

/// Operations of a graph.
const Contents& operations(const Content& graph);

/// Appends all tensors of an operation.
void add_tensors(const Content& content, std::vector<const Content*>& tensors);

/// Finds the engine and the graph of a plan. Returns false if it has none.
bool plan_engine(const Content& plan, const Content*& engine, const Content*& graph);

/// Records that `function` runs the plan: the operations with the content of their descriptors, the
/// engine and its knobs as far as they are known, and the workspace. `heuristic` names the
/// heuristic that chose the engine, unless it is cuDNN's own.
void record_plan(const char* function, const Content& plan, const Content& engine,
                 const Content& graph, const char* heuristic);

}  // namespace optrace::emulated

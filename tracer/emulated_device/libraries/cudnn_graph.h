#pragma once

// What cuDNN's graph ("backend") descriptors hold, and how the graph that a plan runs is recorded.

#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <cudnn.h>

#include "tracer/emulated_device/device/call_values.h"

namespace optrace::emulated {

struct Content;
using Contents = std::vector<std::shared_ptr<const Content>>;

struct Attribute {
  cudnnBackendAttributeType_t type = CUDNN_TYPE_INT64;
  std::int64_t count = 0;
  std::vector<char> bytes;  ///< Of the elements, unless they are descriptors.
  Contents descriptors;     ///< As they were when they were set: finalized, so they stay so.
};

/// What a descriptor holds. Once finalized it never changes, and other descriptors share it: the
/// program may destroy a descriptor that another was made from.
struct Content {
  cudnnBackendDescriptorType_t type = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  bool finalized = false;
  std::map<int, Attribute> attributes;
};

std::string type_name(cudnnDataType_t type);

/// Empty for what is none.
std::string_view type_full_name(cudnnBackendDescriptorType_t type);

/// "CONVOLUTION_FORWARD" of CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, or with
/// "OPERATION_" in front.
std::string middle_name(cudnnBackendDescriptorType_t type, bool operation);

bool is_operation(cudnnBackendDescriptorType_t type);

std::string_view attribute_full_name(int attribute);

/// Whether the attribute is one of the descriptor's. An attribute without a name is newer than the
/// headers; a heuristic is also asked by the engine's name for the target of multiprocessors.
bool belongs(cudnnBackendDescriptorType_t type, int attribute);

/// "x" of CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X or CUDNN_ATTR_OPERATION_POINTWISE_XDESC.
std::string attribute_key(cudnnBackendDescriptorType_t type, int attribute);

/// Bytes of an element, as the table of cudnnBackendAttributeType_t in the API reference says.
std::size_t element_bytes(cudnnBackendAttributeType_t type);

/// Null where it isn't set.
const Attribute* find(const Content& content, int attribute);

template <typename Value>
std::vector<Value> values(const Content& content, int attribute) {
  std::vector<Value> result;
  const Attribute* const found = find(content, attribute);
  if (found == nullptr || element_bytes(found->type) != sizeof(Value)) return result;
  result.resize(static_cast<std::size_t>(found->count));
  if (!result.empty()) std::memcpy(result.data(), found->bytes.data(), found->bytes.size());
  return result;
}

template <typename Value>
Value value(const Content& content, int attribute, Value otherwise) {
  const std::vector<Value> found = values<Value>(content, attribute);
  return found.empty() ? otherwise : found.front();
}

/// The descriptor that an attribute holds; null where none is set.
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

/// The tensors of a convolution, whichever way it goes; false for other operations.
bool convolution(const Content& operation, Convolution& found);

/// Of a graph.
const Contents& operations(const Content& graph);

/// All tensors of an operation.
void add_tensors(const Content& content, std::vector<const Content*>& tensors);

/// The engine and the graph that a plan runs; false where it has none.
bool plan_engine(const Content& plan, const Content*& engine, const Content*& graph);

/// Records that `function` runs the plan: the operations with all that their descriptors hold, the
/// engine and its knobs as far as they are known, the workspace. `heuristic`: whose choice the
/// engine is, unless cuDNN's own.
void record_plan(const char* function, const Content& plan, const Content& engine,
                 const Content& graph, const char* heuristic);

}  // namespace optrace::emulated

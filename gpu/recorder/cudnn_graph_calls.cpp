// Calls of the real cuDNN's graph ("backend") API. Every attribute that the program sets or gets is
// stored with its descriptor, so a graph's content is known when it is executed.

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include <cudnn.h>

#include "gpu/arguments/cudnn_graph.h"
#include "gpu/recorder/forwards.h"

namespace {

using namespace optrace::emulated;
using optrace::cuda_calls::redirection;

decltype(&cudnnBackendCreateDescriptor) original_create = nullptr;
decltype(&cudnnBackendDestroyDescriptor) original_destroy = nullptr;
decltype(&cudnnBackendSetAttribute) original_set = nullptr;
decltype(&cudnnBackendGetAttribute) original_get = nullptr;
decltype(&cudnnBackendExecute) original_execute = nullptr;

/// Contents by descriptor. Never destroyed, because threads may outlive main().
struct Descriptors {
  std::mutex mutex;
  std::unordered_map<void*, std::shared_ptr<Content>> contents;
};

Descriptors& descriptors() {
  static Descriptors* const made = new Descriptors;
  return *made;
}

/// Returns null for a descriptor created before recording of calls was started.
std::shared_ptr<Content> content_of(void* descriptor) {
  const auto found = descriptors().contents.find(descriptor);
  return found == descriptors().contents.end() ? nullptr : found->second;
}

bool has_values(cudnnBackendAttributeType_t type, std::int64_t count, const void* elements) {
  return type != CUDNN_TYPE_BACKEND_DESCRIPTOR && count > 0 && elements != nullptr;
}

Attribute values_of(cudnnBackendAttributeType_t type, std::int64_t count, const void* elements) {
  Attribute made;
  made.type = type;
  made.count = count;
  const char* const bytes = static_cast<const char*>(elements);
  made.bytes.assign(bytes, bytes + static_cast<std::size_t>(count) * element_bytes(type));
  return made;
}

cudnnStatus_t create(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  const cudnnStatus_t status = original_create(type, descriptor);
  if (status != CUDNN_STATUS_SUCCESS || descriptor == nullptr) return status;
  const std::lock_guard<std::mutex> lock(descriptors().mutex);
  auto content = std::make_shared<Content>();
  content->type = type;
  descriptors().contents[*descriptor] = std::move(content);
  return status;
}

cudnnStatus_t destroy(cudnnBackendDescriptor_t descriptor) {
  {
    const std::lock_guard<std::mutex> lock(descriptors().mutex);
    descriptors().contents.erase(descriptor);
  }
  return original_destroy(descriptor);
}

cudnnStatus_t set_attribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                            cudnnBackendAttributeType_t type, int64_t count, const void* elements) {
  const cudnnStatus_t status = original_set(descriptor, name, type, count, elements);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const std::lock_guard<std::mutex> lock(descriptors().mutex);
  const auto content = content_of(descriptor);
  if (content == nullptr) return status;
  if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    if (has_values(type, count, elements))
      content->attributes[name] = values_of(type, count, elements);
    return status;
  }
  Contents held;
  for (int64_t i = 0; i < count; ++i) {
    auto one = content_of(static_cast<const cudnnBackendDescriptor_t*>(elements)[i]);
    if (one == nullptr) return status;
    held.push_back(std::move(one));
  }
  set(*content, name, std::move(held));
  return status;
}

/// Returns the content of a descriptor that the library has filled: the content already stored for
/// that index, or a new one. Of a new one, only the graph that was passed to the heuristic is
/// known.
std::shared_ptr<Content> given(const Content& content, const Attribute* held,
                               cudnnBackendAttributeName_t name, std::size_t index,
                               const std::shared_ptr<Content>& empty) {
  if (held != nullptr && index < held->descriptors.size())
    return std::const_pointer_cast<Content>(held->descriptors[index]);
  const Attribute* const graph = find(content, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && graph != nullptr) {
    const auto engine = std::make_shared<Content>();
    engine->type = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
    set(*engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph->descriptors);
    set(*empty, CUDNN_ATTR_ENGINECFG_ENGINE, Contents{engine});
  }
  return empty;
}

cudnnStatus_t get_attribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                            cudnnBackendAttributeType_t type, int64_t requested, int64_t* count,
                            void* elements) {
  const cudnnStatus_t status = original_get(descriptor, name, type, requested, count, elements);
  if (status != CUDNN_STATUS_SUCCESS || elements == nullptr || requested <= 0) return status;
  const int64_t filled = count == nullptr ? requested : std::min(*count, requested);
  const std::lock_guard<std::mutex> lock(descriptors().mutex);
  const auto content = content_of(descriptor);
  if (content == nullptr) return status;
  if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    if (has_values(type, filled, elements))
      content->attributes[name] = values_of(type, filled, elements);
    return status;
  }
  Contents all;
  for (int64_t i = 0; i < filled; ++i) {
    auto& place = descriptors().contents[static_cast<cudnnBackendDescriptor_t*>(elements)[i]];
    if (place == nullptr) return status;
    place = given(*content, find(*content, name), name, static_cast<std::size_t>(i), place);
    all.push_back(place);
  }
  // A heuristic returns new results for each query.
  if (name != CUDNN_ATTR_ENGINEHEUR_RESULTS) set(*content, name, std::move(all));
  return status;
}

cudnnStatus_t execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                      cudnnBackendDescriptor_t pack) {
  const CalledAt here(__builtin_frame_address(0));
  if (recording()) {
    const std::lock_guard<std::mutex> lock(descriptors().mutex);
    const auto content = content_of(plan);
    const Content* engine = nullptr;
    const Content* graph = nullptr;
    if (content != nullptr && plan_engine(*content, engine, graph)) {
      record_plan("cudnnBackendExecute", *content, *engine, *graph, nullptr);
    } else {
      // The plan was created before recording of calls was started.
      Call call("cudnnBackendExecute", "library");
      call.record();
    }
  }
  const cudnnStatus_t status = original_execute(handle, plan, pack);
  if (status != CUDNN_STATUS_SUCCESS) record_failure("cudnnBackendExecute", status, "");
  return status;
}

const optrace_agent_redirection kGraphCalls[] = {
    redirection("cudnnBackendCreateDescriptor", &create, &original_create),
    redirection("cudnnBackendDestroyDescriptor", &destroy, &original_destroy),
    redirection("cudnnBackendSetAttribute", &set_attribute, &original_set),
    redirection("cudnnBackendGetAttribute", &get_attribute, &original_get),
    redirection("cudnnBackendExecute", &execute, &original_execute),
};
[[maybe_unused]] const bool added_graph_calls =
    optrace::cuda_calls::add({kGraphCalls, std::size(kGraphCalls)});

}  // namespace

// Graphs of the emulated device.

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpu/emulated/streams/device_streams.h"
#include "gpu/emulated/streams/stream_objects.h"

namespace optrace::emulated {
namespace {

/// Copies the nodes with their operations, and the objects kept alive for them.
void copy(const Graph& from, Graph& to, bool known) {
  std::unordered_map<const GraphNode*, GraphNode*> copies;
  for (const auto& node : from.nodes) {
    auto made = std::make_unique<GraphNode>();
    made->operation = node->operation;
    made->graph = &to;
    for (GraphNode* const dependency : node->dependencies)
      if (copies.count(dependency) != 0) made->dependencies.push_back(copies[dependency]);
    if (node->child != nullptr) {
      made->child = std::make_shared<Graph>();
      copy(*node->child, *made->child, known);
    }
    copies[node.get()] = made.get();
    if (known) objects().nodes[made.get()] = &to;
    to.nodes.push_back(std::move(made));
  }
  to.kept = from.kept;
}

bool same_shape(const Graph& one, const Graph& other) {
  return std::equal(one.nodes.begin(), one.nodes.end(), other.nodes.begin(), other.nodes.end(),
                    [](const auto& a, const auto& b) {
                      return a->operation.node == b->operation.node &&
                             a->dependencies.size() == b->dependencies.size() &&
                             (a->child == nullptr) == (b->child == nullptr) &&
                             (a->child == nullptr || same_shape(*a->child, *b->child));
                    });
}

void replay(const Graph& graph, const char* function, const ObservedCall& call,
            std::uint64_t stream) {
  for (const auto& node : graph.nodes) {
    if (node->operation.run) node->operation.run();
    record(function, node->operation, call, stream);
    if (node->child != nullptr) replay(*node->child, function, call, stream);
  }
}

}  // namespace

GraphNode* append(Graph& graph, std::vector<GraphNode*> dependencies, Operation operation) {
  auto node = std::make_unique<GraphNode>();
  node->operation = std::move(operation);
  node->dependencies = std::move(dependencies);
  node->graph = &graph;
  GraphNode* const added = node.get();
  graph.nodes.push_back(std::move(node));
  objects().nodes[added] = &graph;
  return added;
}

void remove_nodes(const Graph& graph) {
  for (const auto& node : graph.nodes) {
    objects().nodes.erase(node.get());
    if (node->child != nullptr) {
      objects().graphs.erase(node->child.get());
      remove_nodes(*node->child);
    }
    for (const auto& body : node->bodies) {
      objects().graphs.erase(body.get());
      remove_nodes(*body);
    }
  }
}

Graph* create_graph() {
  const std::lock_guard lock(streams_mutex);
  auto graph = std::make_shared<Graph>();
  Graph* const made = graph.get();
  objects().graphs[made] = std::move(graph);
  return made;
}

Status destroy_graph(Graph* graph) {
  std::shared_ptr<Graph> last;  // Its objects are released without the lock.
  const std::lock_guard lock(streams_mutex);
  const auto found = objects().graphs.find(graph);
  if (found == objects().graphs.end()) return Status::invalid_value;
  last = found->second;
  remove_nodes(*graph);
  objects().graphs.erase(found);
  return Status::success;
}

Status add_node(Graph* graph, const std::vector<GraphNode*>& dependencies, Operation operation,
                GraphNode** node) {
  if (node == nullptr) return Status::invalid_value;
  const std::lock_guard lock(streams_mutex);
  if (objects().graphs.count(graph) == 0) return Status::invalid_value;
  for (GraphNode* const dependency : dependencies) {
    const auto known = objects().nodes.find(dependency);
    if (known == objects().nodes.end() || known->second != graph) return Status::invalid_value;
  }
  *node = append(*graph, dependencies, std::move(operation));
  return Status::success;
}

Status add_body(GraphNode* node, Graph** body) {
  const std::lock_guard lock(streams_mutex);
  if (body == nullptr || objects().nodes.count(node) == 0) return Status::invalid_value;
  node->bodies.push_back(std::make_shared<Graph>());
  *body = node->bodies.back().get();
  objects().graphs[*body] = node->bodies.back();
  return Status::success;
}

Status graph_nodes(Graph* graph, std::vector<GraphNode*>& nodes) {
  const std::lock_guard lock(streams_mutex);
  if (objects().graphs.count(graph) == 0) return Status::invalid_value;
  nodes.clear();
  for (const auto& node : graph->nodes) nodes.push_back(node.get());
  return Status::success;
}

Status node_dependencies(GraphNode* node, std::vector<GraphNode*>& nodes) {
  const std::lock_guard lock(streams_mutex);
  if (objects().nodes.count(node) == 0) return Status::invalid_value;
  nodes = node->dependencies;
  return Status::success;
}

Status keep_with_graph(Graph* graph, std::shared_ptr<void> kept) {
  const std::lock_guard lock(streams_mutex);
  if (objects().graphs.count(graph) == 0) return Status::invalid_value;
  graph->kept.push_back(std::move(kept));
  return Status::success;
}

Status clone_graph(Graph* original, Graph** clone) {
  if (clone == nullptr) return Status::invalid_value;
  const std::lock_guard lock(streams_mutex);
  if (objects().graphs.count(original) == 0) return Status::invalid_value;
  auto made = std::make_shared<Graph>();
  copy(*original, *made, true);
  *clone = made.get();
  objects().graphs[*clone] = std::move(made);
  return Status::success;
}

Status instantiate(Graph* graph, GraphExec** exec) {
  if (exec == nullptr) return Status::invalid_value;
  *exec = nullptr;
  const std::lock_guard lock(streams_mutex);
  if (objects().graphs.count(graph) == 0) return Status::invalid_value;
  auto copied = std::make_shared<Graph>();
  copy(*graph, *copied, false);
  auto made = std::make_shared<GraphExec>();
  made->graph = std::move(copied);
  *exec = made.get();
  objects().execs[*exec] = std::move(made);
  return Status::success;
}

Status destroy_exec(GraphExec* exec) {
  std::shared_ptr<GraphExec> last;
  const std::lock_guard lock(streams_mutex);
  const auto found = objects().execs.find(exec);
  if (found == objects().execs.end()) return Status::invalid_value;
  last = found->second;
  objects().execs.erase(found);
  return Status::success;
}

Status update_exec(GraphExec* exec, Graph* graph, bool& same) {
  std::shared_ptr<const Graph> last;
  const std::lock_guard lock(streams_mutex);
  const auto found = objects().execs.find(exec);
  if (found == objects().execs.end() || objects().graphs.count(graph) == 0)
    return Status::invalid_value;
  same = same_shape(*found->second->graph, *graph);
  if (!same) return Status::success;
  auto made = std::make_shared<Graph>();
  copy(*graph, *made, false);
  last = std::exchange(found->second->graph, std::move(made));
  return Status::success;
}

Status launch_graph(GraphExec* exec, void* stream, const char* function) {
  const ObservedCall call(function);
  std::shared_ptr<const Graph> launched;
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(streams_mutex);
    const auto found = objects().execs.find(exec);
    if (found == objects().execs.end()) return Status::invalid_value;
    launched = found->second->graph;
    Stream* const on = stream_of(stream);
    if (on == nullptr) return Status::invalid_handle;
    if (on->legacy && blocking_capture()) return Status::capture_implicit;
    if (on->capture != nullptr) {
      // A graph launched into a capture becomes a node with its own copy of the graph.
      if (on->capture->invalidated) return Status::capture_invalidated;
      GraphNode* const node = append_to_capture(*on, {NodeKind::child, nullptr, {}, {}});
      node->child = std::make_shared<Graph>();
      copy(*launched, *node->child, true);
      objects().graphs[node->child.get()] = node->child;
      return Status::success;
    }
    number = on->number;
  }
  replay(*launched, function, call, number);
  return Status::success;
}

}  // namespace optrace::emulated

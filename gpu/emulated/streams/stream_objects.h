#pragma once

// Streams, events, captures and graphs as the device stores them, for the files that implement
// device_streams.h.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "gpu/emulated/streams/device_streams.h"

namespace optrace::emulated {

struct Graph {
  std::vector<std::unique_ptr<GraphNode>> nodes;  // Each follows its dependencies.
  std::vector<std::shared_ptr<void>> kept;
};

struct GraphExec {
  std::shared_ptr<const Graph> graph;
};

struct Capture {
  std::uint64_t id;
  std::shared_ptr<Graph> graph;
  bool own_graph;  // Created for the capture, and passed to the caller that ends it.
  CaptureMode mode;
  const void* thread;
  Stream* origin;
  bool invalidated;
};

struct Stream {
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  std::uint64_t number = 0;
  bool legacy = false;
  std::shared_ptr<Capture> capture;
  std::vector<GraphNode*> leaves;
};

struct Event {
  int device = 0;
  unsigned flags = 0;
  bool recorded = false;
  std::chrono::steady_clock::time_point time;
  std::shared_ptr<Capture> capture;  // The capture in which it was recorded; it then has no time.
  std::vector<GraphNode*> nodes;
};

// Values of cudaStreamNonBlocking and cudaEventDisableTiming.
constexpr unsigned kNonBlocking = 1;
constexpr unsigned kDisableTiming = 2;
constexpr std::size_t kDefaultStreams = 64;  // One for each device that there may be.

/// All existing objects. Handles are addresses; only those found here are dereferenced.
struct StreamObjects {
  std::unordered_map<void*, std::unique_ptr<Stream>> streams;
  std::unordered_map<void*, std::unique_ptr<Event>> events;
  std::unordered_map<Graph*, std::shared_ptr<Graph>> graphs;
  std::unordered_map<GraphExec*, std::shared_ptr<GraphExec>> execs;
  std::unordered_map<GraphNode*, Graph*> nodes;
  std::vector<std::shared_ptr<Capture>> captures;  // Captures in progress.
  Stream legacy[kDefaultStreams];
  std::uint64_t last_stream = 0;
  std::uint64_t last_capture = 0;
};

StreamObjects& objects();

/// Protects objects().
extern std::mutex streams_mutex;

extern std::atomic<int> active_captures;

/// Its address identifies the thread.
extern thread_local char this_thread;

// The following require streams_mutex to be locked.

/// Returns null for a handle of no existing stream.
Stream* stream_of(void* handle);

/// Returns true if a blocking stream is capturing, for which the legacy stream would have to wait.
bool blocking_capture();

inline void invalidate(Capture& capture) {
  capture.invalidated = true;
}

GraphNode* append(Graph& graph, std::vector<GraphNode*> dependencies, Operation operation);
GraphNode* append_to_capture(Stream& stream, Operation operation);

/// Removes a graph's nodes, and those of the graphs in it, from objects().
void remove_nodes(const Graph& graph);

// The lock is not needed.

/// Records an operation as a call of `function`.
void record(const char* function, const Operation& operation, const ObservedCall& call,
            std::uint64_t stream);

}  // namespace optrace::emulated

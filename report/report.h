#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "indexer/index_store.h"
#include "tracer/trace.h"

namespace optrace {

/// Where a frame lives.
enum class Layer { python, binding, dispatcher, autograd, kernel, library, device, runtime };

struct FrameSource {
  std::string file;  ///< Relative to the source tree.
  std::uint32_t line = 0;
  std::optional<std::uint32_t>
      call_line;  ///< Where the parent calls this frame, in the parent's file.
  std::string url;
};

/// A node of the report's tree; its JSON is schema optrace.report/1.
struct Frame {
  Layer layer = Layer::runtime;
  std::string name;  ///< Qualified, without arguments.
  std::optional<std::string> symbol;
  std::optional<std::string> library;
  std::optional<FrameSource> source;
  std::optional<std::string> op;  ///< `aten::conv2d`
  std::uint64_t thread = 0;
  std::uint64_t calls = 1;  ///< How many times this path was taken.
  nlohmann::json detail;    ///< null or an object.
  std::vector<Frame> children;
};

struct Report {
  nlohmann::json torch;  ///< {"version", "git_version", "cuda", "debug"}
  std::string device;
  std::string source_version;  ///< Of the index; empty without one.
  bool source_exact = false;
  nlohmann::json meta;  ///< The trace's, for the header.
  std::vector<Frame> roots;
};

struct MergeOptions {
  bool all = false;  ///< Keep wrapper templates, interpreter frames and other plumbing.
};

/// `index` may be null: then no frame of C++ has a source.
Report merge(const Trace& trace, const Index* index, const MergeOptions& options);

}  // namespace optrace

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "indexer/index_store.h"
#include "tracer/trace.h"

namespace optrace {

/// Where a frame lives.
enum class Layer { python, binding, dispatcher, autograd, kernel, library, device, runtime };

/// Where a frame's function is defined, and where its parent calls it. Either may be unknown: a
/// library's function has no file in PyTorch's source, but a line that calls it.
struct FrameSource {
  std::string file;        ///< Relative to the source tree; empty if the definition is unknown.
  std::uint32_t line = 0;  ///< From 1; 0 if the definition is unknown.
  std::optional<std::uint32_t>
      call_line;    ///< Where the parent calls this frame, in the parent's file.
  std::string url;  ///< Of the definition, at GitHub; empty for generated code.
};

/// A node of the report's tree; its JSON is schema optrace.report/1. Trees may be as deep as the
/// program's recursion, so nothing that walks them may recurse, destruction included.
struct Frame {
  Layer layer = Layer::runtime;
  std::string name;  ///< Qualified, without arguments.
  std::optional<std::string> symbol;
  std::optional<std::string> library;
  std::optional<FrameSource> source;
  std::optional<std::string> op;  ///< `aten::conv2d`
  std::uint64_t thread = 0;
  std::uint64_t calls = 1;  ///< How many times this path was taken.
  nlohmann::json detail;    ///< null or an object; docs/report-format.md has its keys.
  std::vector<Frame> children;

  Frame() = default;
  Frame(Frame&&) noexcept = default;
  Frame& operator=(Frame&&) noexcept = default;
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  ~Frame();
};

struct Report {
  nlohmann::json torch;  ///< {"version", "git_version", "cuda", "debug"}
  std::string device;
  nlohmann::json dry_run;      ///< null, or {"arch", "part", "devices"}: what was emulated.
  std::string source_version;  ///< Of the index; empty without one.
  bool source_exact = false;   ///< The index was made from the source of the torch traced.
  nlohmann::json meta;         ///< The trace's, for the header.
  std::vector<Frame> roots;

  CallTreeStatistics statistics;  ///< Of all threads together.
  std::size_t threads = 0;        ///< That recorded something.
  std::uint64_t lost_events = 0;
};

struct MergeOptions {
  bool all = false;    ///< Keep wrapper templates, interpreter frames and other plumbing.
  bool times = false;  ///< Say how long each path took: detail's key "time".
};

/// `index` may be null: then no frame of C++ has a source. Throws Error(usage) when the trace or
/// the index turns out to be corrupt.
Report merge(const Trace& trace, const Index* index, const MergeOptions& options);

}  // namespace optrace

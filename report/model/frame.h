#pragma once

// A frame of a report's tree. C++17, because the reader library that other programs link includes
// it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pytorch/functions/layer.h"
#include "pytorch/source/line_interval.h"
#include "report/model/detail.h"
#include "report/model/shared.h"

namespace optrace {

/// The expression of a Python frame that makes a call, as a traceback underlines it: from `column`
/// of the call's line to `end_column` (exclusive) of `end_line`. All count from 1; columns are
/// bytes of UTF-8.
struct CallRange {
  std::uint32_t column = 0;
  std::uint32_t end_line = 0;
  std::uint32_t end_column = 0;
};
inline bool operator==(const CallRange& left, const CallRange& right) {
  return left.column == right.column && left.end_line == right.end_line &&
         left.end_column == right.end_column;
}

/// The definition of a frame's function, and the place where its parent calls it. Either may be
/// unknown: a library's function has no file in PyTorch's source, but has a line that calls it.
struct FrameSource {
  std::string file;        ///< Relative to the source tree; empty if the definition is unknown.
  std::uint32_t line = 0;  ///< From 1; 0 if it is unknown.
  std::optional<std::uint32_t> call_line;  ///< Line of the call, in the parent's file.
  std::string url;  ///< GitHub link to the definition; empty for generated code.
  std::optional<CallRange> call_range{};           ///< Set only if the parent is a Python frame.
  std::optional<LineInterval> approximate{};       ///< Of the line; nothing if it is exact.
  std::optional<LineInterval> call_approximate{};  ///< Same, of the line of the call.
  /// The definition comes from the library's debug info, and thus is exact. The lines at which its
  /// native code calls others do, too.
  bool debug_info = false;
};

inline bool operator==(const FrameSource& left, const FrameSource& right) {
  return left.line == right.line && left.call_line == right.call_line &&
         left.call_range == right.call_range && left.approximate == right.approximate &&
         left.call_approximate == right.call_approximate && left.debug_info == right.debug_info &&
         left.file == right.file && left.url == right.url;
}

/// How long the calls of a path took, in nanoseconds.
struct FrameTime {
  struct Range {
    std::uint64_t shortest = 0;  ///< The time of the shortest call.
    std::uint64_t longest = 0;
  };
  std::uint64_t total = 0;
  /// Unknown in a part of a report, for the frames above the selected ones.
  std::optional<Range> range{};
};

/// A node of the report's tree; its JSON schema is optrace.report/1. Trees may be as deep as the
/// program's recursion, so code that walks or destroys them must not recurse.
struct Frame {
  Layer layer = Layer::runtime;
  std::uint32_t number = 0;  ///< Of optrace's own use; not in the JSON.
  std::string name;          ///< Qualified, without arguments.
  Shared<std::string> symbol;
  std::optional<std::string> library;
  Shared<FrameSource> source;
  std::optional<std::string> op;  ///< `aten::conv2d`
  std::uint64_t thread = 0;
  std::uint64_t calls = 1;        ///< How many times this path was taken.
  std::optional<FrameTime> time;  ///< In the JSON, a key of `detail`.
  Shared<Detail> detail;
  std::vector<Frame> children;

  Frame() = default;
  Frame(Frame&&) noexcept = default;
  Frame& operator=(Frame&&) noexcept = default;
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  ~Frame();
};

}  // namespace optrace

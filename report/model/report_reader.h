#pragma once

// The contents of a report's JSON, and its reader. This header is installed as
// <optrace/report_reader.h> with the CMake target optrace::reader, so it is C++17 and depends only
// on nlohmann/json.

#include <cstdint>
#include <istream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace optrace {

/// The layer of PyTorch's stack that a frame belongs to.
enum class Layer { python, binding, dispatcher, autograd, kernel, library, device, runtime };

/// Returns the name used in the JSON: "python", "binding", ...
std::string_view name_of(Layer layer);

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
  std::uint32_t line = 0;  ///< From 1; 0 if the definition is unknown.
  std::optional<std::uint32_t> call_line;  ///< Line of the call, in the parent's file.
  std::string url;  ///< GitHub link to the definition; empty for generated code.
  std::optional<CallRange> call_range{};  ///< Set only if the parent is a Python frame.
};

/// A node of the report's tree; its JSON schema is optrace.report/1. Trees may be as deep as the
/// program's recursion, so code that walks or destroys them must not recurse.
struct Frame {
  Layer layer = Layer::runtime;
  std::uint32_t number = 0;  ///< Of optrace's own use; not in the JSON.
  std::string name;          ///< Qualified, without arguments.
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

/// Something that is missing from a report, so that its counts may be too low or in the wrong
/// place: `events_lost`, `paths_merged`, ... docs/report-format.md lists the kinds.
struct Shortfall {
  std::string kind;
  std::uint64_t count = 1;  ///< In the unit of the kind; 1 if it is not counted.
};

struct WrittenReport {
  nlohmann::json torch = nlohmann::json::object();  ///< {"version", "git_version", "cuda", "debug"}
  std::string device;
  nlohmann::json steps;               ///< null, or {"first", "count", "ended_after"} of a window.
  nlohmann::json compilations;        ///< null, or a list of what torch.compile compiled.
  nlohmann::json dry_run;             ///< null, or {"arch", "gpu_model", "devices"} as emulated.
  std::string source_version;         ///< PyTorch version of the index; empty without one.
  bool source_exact = false;          ///< The index was made from the source of the torch traced.
  nlohmann::json processes;           ///< null, or a list of the processes combined in this report.
  std::vector<Shortfall> shortfalls;  ///< Each kind once; empty if none is known.
  std::vector<Frame> roots;
};

/// Thrown for a text that is not a report. what() has the reason: "its schema is optrace.report/2,
/// ...".
class ReportError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reads schema optrace.report/1, written by any version of optrace. Unknown keys are ignored, and
/// missing keys leave the defaults above. All input is untrusted. Throws ReportError for a text
/// that is not such a report or is larger than a GiB.
WrittenReport parse_report(std::string_view json);
/// Same, for the whole contents of a stream.
WrittenReport parse_report(std::istream& stream);

}  // namespace optrace

#pragma once

// What a report's JSON holds, and its reader. It is installed, as <optrace/report_file.h> with the
// CMake target optrace::reader, so it is C++17 and takes nothing but nlohmann/json.

#include <cstdint>
#include <istream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace optrace {

/// Where a frame lives.
enum class Layer { python, binding, dispatcher, autograd, kernel, library, device, runtime };

/// "python", "binding", ... as the JSON has them.
std::string_view name_of(Layer layer);

/// The rest of what a Python frame's line calls with, as a traceback underlines it: from `column`
/// of the call's line to `end_column` (exclusive) of `end_line`. From 1; columns in bytes of UTF-8.
struct CallRange {
  std::uint32_t column = 0;
  std::uint32_t end_line = 0;
  std::uint32_t end_column = 0;
};
inline bool operator==(const CallRange& left, const CallRange& right) {
  return left.column == right.column && left.end_line == right.end_line &&
         left.end_column == right.end_column;
}

/// Where a frame's function is defined, and where its parent calls it. Either may be unknown: a
/// library's function has no file in PyTorch's source, but a line that calls it.
struct FrameSource {
  std::string file;        ///< Relative to the source tree; empty if the definition is unknown.
  std::uint32_t line = 0;  ///< From 1; 0 if the definition is unknown.
  std::optional<std::uint32_t>
      call_line;    ///< Where the parent calls this frame, in the parent's file.
  std::string url;  ///< Of the definition, at GitHub; empty for generated code.
  std::optional<CallRange> call_range{};  ///< Only where a Python frame is the parent.
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

/// Something that a report does not have all of, so that what it counts may be too little or in the
/// wrong place: `events_lost`, `paths_merged`, ... docs/report-format.md has the kinds.
struct Shortfall {
  std::string kind;
  std::uint64_t count = 1;  ///< How much, of what the kind says; 1 where it is not counted.
};

struct WrittenReport {
  nlohmann::json torch = nlohmann::json::object();  ///< {"version", "git_version", "cuda", "debug"}
  std::string device;
  nlohmann::json dry_run;             ///< null, or {"arch", "part", "devices"}: what was emulated.
  std::string source_version;         ///< Of the index; empty without one.
  bool source_exact = false;          ///< The index was made from the source of the torch traced.
  nlohmann::json processes;           ///< null, or a list: those whose paths are in here together.
  std::vector<Shortfall> shortfalls;  ///< Each kind once; empty where nothing is known to lack.
  std::vector<Frame> roots;
};

/// Why a text is no report, as what() says: "its schema is optrace.report/2, not ...".
class ReportError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reads schema optrace.report/1, written by this version of optrace or by another: keys that it
/// doesn't know are passed over, and what has no key keeps the value above. Everything in the text
/// is hostile. Throws ReportError for what is no such report, and for more than a GiB.
WrittenReport parse_report(std::string_view json);
/// The same of all that a stream has.
WrittenReport parse_report(std::istream& stream);

}  // namespace optrace

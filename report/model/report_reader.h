#pragma once

// The contents of a report's JSON, and its reader. This header is installed as
// <optrace/report_reader.h> with the CMake target optrace::reader, so it is C++17 and depends only
// on nlohmann/json and on headers that are installed beside it.

#include <cstddef>
#include <cstdint>
#include <istream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "pytorch/functions/layer.h"

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

/// The lines among which an approximate line lies: both included, from 1; both 0 if no bound is
/// known.
struct LineBounds {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};
inline bool operator==(const LineBounds& left, const LineBounds& right) {
  return left.first == right.first && left.last == right.last;
}

/// The definition of a frame's function, and the place where its parent calls it. Either may be
/// unknown: a library's function has no file in PyTorch's source, but has a line that calls it.
struct FrameSource {
  std::string file;        ///< Relative to the source tree; empty if the definition is unknown.
  std::uint32_t line = 0;  ///< From 1; 0 if it is unknown.
  std::optional<std::uint32_t> call_line;  ///< Line of the call, in the parent's file.
  std::string url;  ///< GitHub link to the definition; empty for generated code.
  std::optional<CallRange> call_range{};         ///< Set only if the parent is a Python frame.
  std::optional<LineBounds> approximate{};       ///< Of the line; nothing if it is exact.
  std::optional<LineBounds> call_approximate{};  ///< Same, of the line of the call.
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

/// An optional value that its copies share, since many frames of a report have equal ones. It is
/// read like a std::optional.
template <typename Value>
class Shared {
 public:
  Shared() = default;
  Shared(Value value) : value_(std::make_shared<Value>(std::move(value))) {}
  Shared(std::optional<Value> value)
      : value_(value ? std::make_shared<Value>(*std::move(value)) : nullptr) {}

  bool has_value() const { return value_ != nullptr; }
  explicit operator bool() const { return has_value(); }
  const Value& operator*() const { return *value_; }
  const Value* operator->() const { return value_.get(); }
  Value value_or(Value otherwise) const { return value_ ? *value_ : std::move(otherwise); }

  /// Returns this object's own value for changes, which copies do not share. Makes one if there is
  /// none.
  Value& edit() {
    if (value_ == nullptr)
      value_ = std::make_shared<Value>();
    else if (value_.use_count() != 1)
      value_ = std::make_shared<Value>(*value_);
    return *value_;
  }

 private:
  std::shared_ptr<Value> value_;
};

/// JSON that its copies share; null if there is none. It is read like a constant nlohmann::json.
class SharedJson : public Shared<nlohmann::json> {
 public:
  using Shared<nlohmann::json>::Shared;
  SharedJson(nlohmann::json::initializer_list_t value) : Shared(nlohmann::json(value)) {}

  const nlohmann::json& get() const {
    static const nlohmann::json kNull;
    return has_value() ? **this : kNull;
  }
  operator const nlohmann::json&() const { return get(); }
  friend void to_json(nlohmann::json& copy, const SharedJson& shared) { copy = shared.get(); }

  bool is_null() const { return get().is_null(); }
  bool is_object() const { return get().is_object(); }
  bool empty() const { return get().empty(); }
  std::size_t size() const { return get().size(); }
  auto begin() const { return get().begin(); }
  auto end() const { return get().end(); }
  auto items() const { return get().items(); }
  bool contains(const char* key) const { return get().contains(key); }
  auto find(const char* key) const { return get().find(key); }
  const nlohmann::json& operator[](const char* key) const { return get()[key]; }
  const nlohmann::json& at(const char* key) const { return get().at(key); }
  template <typename Value>
  Value value(const char* key, const Value& otherwise) const {
    return get().value(key, otherwise);
  }
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
  std::optional<FrameTime> time;  ///< In the JSON, `detail.time`.
  SharedJson detail;              ///< null or an object; docs/report-format.md has its keys.
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
  nlohmann::json steps;            ///< null, or {"first", "count", "ended_after"} of a window.
  nlohmann::json compilations;     ///< null, or a list of what torch.compile compiled.
  nlohmann::json dry_run;          ///< null, or {"arch", "gpu_model", "devices"} as emulated.
  std::string source_version;      ///< PyTorch version of the index; empty without one.
  bool source_of_torch = false;    ///< The index is of the traced torch.
  bool source_from_wheel = false;  ///< The index was made from a wheel rather than from source.
  bool source_exact = false;       ///< The index is of the traced torch, and all lines are exact.
  nlohmann::json processes;        ///< null, or a list of the processes combined in this report.
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

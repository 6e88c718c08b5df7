#include "report/json/report_json.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "indexer/store/source_link.h"
#include "platform/text/json_writer.h"
#include "pytorch/functions/layers.h"
#include "report/json/detail_json.h"
#include "report/json/report_parts_json.h"

namespace optrace {
namespace {

constexpr std::string_view kSchema = "optrace.report/1";

// Deeper frames are not indented further.
constexpr std::size_t kMaxIndentationDepth = 60;

class JsonWriter {
 public:
  explicit JsonWriter(OutputSink& sink) : sink_(sink) {}

  void write(const Report& report) {
    text_ += "{\"schema\": ";
    string(kSchema);
    text_ += ",\n \"torch\": {";
    const nlohmann::json torch = to_json(report.torch);
    bool first = true;
    for (const char* const key : {"version", "git_version", "cuda", "debug"}) {
      if (!first) text_ += ", ";
      first = false;
      string(key);
      text_ += ": ";
      value(torch[key]);
    }
    text_ += "},\n \"device\": ";
    string(report.device);
    text_ += ", \"dry_run\": ";
    value(to_json(report.dry_run));
    text_ += ",\n \"source\": {\"version\": ";
    if (report.source_version.empty())
      text_ += "null";
    else
      string(report.source_version);
    key("made_from", report.source_version.empty()
                         ? nlohmann::json()
                         : nlohmann::json(made_from(report.source_from_wheel)));
    key("of_torch", report.source_of_torch);
    key("exact", report.source_exact);
    text_ += '}';
    if (!report.processes.empty()) {
      text_ += ",\n \"processes\": ";
      value(to_json(report.processes));
    }
    if (report.steps) {
      text_ += ",\n \"steps\": ";
      value(to_json(report.steps));
    }
    if (!report.compilations.empty()) {
      text_ += ",\n \"compilations\": ";
      value(to_json(report.compilations));
    }
    text_ += ",\n \"shortfalls\": ";
    value(to_json(report.shortfalls));
    if (report.python_calls) {
      text_ += ",\n \"python_calls\": ";
      value(*report.python_calls);
    }
    text_ += ",\n \"roots\": [";
    frames(report.roots);
    text_ += "]}\n";
    flush();
  }

 private:
  void flush() {
    sink_.write(text_);
    text_.clear();
  }

  void value(const nlohmann::json& json) { text_ += write_json(json); }
  void string(std::string_view text) { value(nlohmann::json(text)); }

  void key(std::string_view name, const nlohmann::json& content) {
    text_ += ", \"";
    text_ += name;
    text_ += "\": ";
    value(content);
  }
  // `content` is a string that may be missing.
  template <class Text>
  static nlohmann::json or_null(const Text& content) {
    return content ? nlohmann::json(*content) : nlohmann::json();
  }

  void source(const Shared<FrameSource>& source) {
    if (!source) {
      key("source", nlohmann::json());
      return;
    }
    const auto if_known = [](bool known, nlohmann::json content) {
      return known ? std::move(content) : nlohmann::json();
    };
    text_ += ", \"source\": {\"file\": ";
    value(if_known(!source->file.empty(), source->file));
    key("line", if_known(source->line != 0, source->line));
    state("exact", "interval", source->line != 0, source->approximate);
    key("call_line", if_known(source->call_line.has_value(), source->call_line.value_or(0)));
    state("call_exact", "call_interval", source->call_line.has_value(), source->call_approximate);
    key("call_range", to_json(source->call_range));
    key("url", if_known(!source->url.empty(), source->url));
    if (source->debug_info) text_ += ", \"debug_info\": true";
    text_ += '}';
  }

  // Writes whether a line is exact, and its bounds if there are some.
  void state(std::string_view exact, std::string_view interval, bool known,
             const std::optional<LineInterval>& approximate) {
    key(exact, known ? nlohmann::json(!approximate) : nlohmann::json());
    if (known && approximate && approximate->first != 0)
      key(interval, nlohmann::json::array({approximate->first, approximate->last}));
  }

  // Writes a frame up to its children.
  void open(const Frame& frame) {
    text_ += '\n';
    text_.append(std::min(open_.size(), kMaxIndentationDepth) + 1, ' ');
    text_ += "{\"layer\": ";
    string(name_of(frame.layer));
    key("name", frame.name);
    key("symbol", or_null(frame.symbol));
    key("library", or_null(frame.library));
    source(frame.source);
    key("op", or_null(frame.op));
    key("thread", frame.thread);
    key("calls", frame.calls);
    text_ += ", \"detail\": ";
    text_ += details_.text_of(frame);
    text_ += ", \"children\": [";
    flush();
  }

  void frames(const std::vector<Frame>& roots) {
    open_.push_back({&roots, 0});
    while (true) {
      Level& level = open_.back();
      if (level.next == level.frames->size()) {
        open_.pop_back();
        if (open_.empty()) return;
        text_ += "]}";
        continue;
      }
      if (level.next != 0) text_ += ',';
      const Frame& frame = (*level.frames)[level.next++];
      open(frame);
      open_.push_back({&frame.children, 0});
    }
  }

  struct Level {
    const std::vector<Frame>* frames;
    std::size_t next;
  };

  OutputSink& sink_;
  DetailJson details_;
  std::string text_;  // Not yet written.
  std::vector<Level> open_;
};

}  // namespace

void to_json(const Report& report, OutputSink& sink) {
  JsonWriter(sink).write(report);
}

}  // namespace optrace

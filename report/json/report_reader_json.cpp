#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>

#include "platform/text/json_fields.h"
#include "platform/text/json_reader.h"
#include "report/json/read_compilation_json.h"
#include "report/json/read_detail_json.h"
#include "report/model/report_reader.h"
#include "tracer/trace/recorded_run_json.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxSize = std::size_t{1} << 30;  // Bytes.
constexpr std::string_view kSchema = "optrace.report/1";

Layer layer_named(const std::string& name) {
  for (std::size_t i = 0; i < kLayerNames.size(); ++i)
    if (kLayerNames[i] == name) return static_cast<Layer>(i);
  throw ReportError("a frame has an unknown layer");
}

/// Reading a JSON value recurses into it. No optrace version writes values deeper than this limit.
bool is_too_deep(const Json& json) {
  constexpr std::size_t kMaxDepth = 64;
  std::vector<std::pair<const Json*, std::size_t>> pending{{&json, 1}};
  while (!pending.empty()) {
    const auto [value, depth] = pending.back();
    pending.pop_back();
    if (!value->is_structured()) continue;
    if (depth > kMaxDepth) return true;
    for (const Json& part : *value) pending.emplace_back(&part, depth + 1);
  }
  return false;
}

ReportError unlike(const char* key, const char* what) {
  return ReportError(std::string("`") + key + "` is not " + what);
}

std::optional<std::string> text_in(const Json& object, const char* key) {
  const Json& value = value_at(object, key);
  if (value.is_null()) return std::nullopt;
  if (!value.is_string()) throw unlike(key, "a string");
  return value.get<std::string>();
}

std::string text_or_empty(const Json& object, const char* key) {
  return text_in(object, key).value_or(std::string());
}

template <typename Number>
std::optional<Number> number_in(const Json& object, const char* key) {
  const Json& value = value_at(object, key);
  if (value.is_null()) return std::nullopt;
  // Also rejects numbers beyond 64 bits, which are parsed as floating-point.
  if (!value.is_number_unsigned() ||
      value.get<std::uint64_t>() > std::numeric_limits<Number>::max())
    throw unlike(key, "a whole number in range");
  return value.get<Number>();
}

/// Returns null if the key is missing.
const Json& structure_in(const Json& object, const char* key, Json::value_t type,
                         const char* what) {
  const Json& value = value_at(object, key);
  if (value.is_null()) return value;
  if (value.type() != type) throw unlike(key, what);
  if (is_too_deep(value)) throw ReportError(std::string("`") + key + "` is nested too deep");
  return value;
}

const Json& object_in(const Json& object, const char* key) {
  return structure_in(object, key, Json::value_t::object, "an object");
}

const Json& list_in(const Json& object, const char* key) {
  const Json& value = value_at(object, key);
  if (!value.is_array()) throw ReportError(std::string("the list `") + key + "` is missing");
  return value;
}

/// Returns the time in a frame's detail. Returns nullopt if there is none.
std::optional<FrameTime> time_in(const Json& detail) {
  const Json& time = value_at(detail, "time");
  const auto total = number_at(time, "total");
  if (!total) return std::nullopt;
  FrameTime read{*total};
  const auto shortest = number_at(time, "shortest");
  const auto longest = number_at(time, "longest");
  if (shortest && longest) read.range = {*shortest, *longest};
  return read;
}

/// Returns the state of a line: `exact` and `interval` are the keys of the frame's source that
/// describe it. Files of older versions have neither; `otherwise` is for those.
std::optional<LineInterval> approximation_in(const Json& source, const char* exact,
                                             const char* interval, bool otherwise) {
  const Json& known = value_at(source, exact);
  if (!known.is_null() && !known.is_boolean()) throw unlike(exact, "true or false");
  if (known.is_null() ? otherwise : known.get<bool>()) return std::nullopt;
  const Json& bounds = value_at(source, interval);
  if (bounds.is_null()) return LineInterval();
  if (!bounds.is_array() || bounds.size() != 2) throw unlike(interval, "a list of two lines");
  LineInterval read;
  for (const auto& [line, value] :
       {std::pair(&read.first, &bounds[0]), std::pair(&read.last, &bounds[1])}) {
    if (!value->is_number_unsigned() ||
        value->get<std::uint64_t>() > std::numeric_limits<std::uint32_t>::max())
      throw unlike(interval, "a list of two lines");
    *line = value->get<std::uint32_t>();
  }
  return read;
}

/// Returns true if a frame's file is code that ran, and not a file of the index.
bool has_own_source(const Frame& frame) {
  if (is_python(frame.layer) || (frame.source && frame.source->file.size() > 3 &&
                                 frame.source->file.rfind(".py") == frame.source->file.size() - 3))
    return true;
  // A kernel that torch.compile generated.
  return frame.layer == Layer::kernel && !frame.detail->origins.empty();
}

/// Parses a frame without its children. `exact`: the lines of the index are exact in a file without
/// a state for each. `parent` may be null.
Frame frame_of(const Json& json, bool exact, const Frame* parent) {
  if (!json.is_object()) throw ReportError("a frame is not an object");
  Frame frame;
  const std::string layer = text_or_empty(json, "layer");
  frame.name = text_or_empty(json, "name");
  if (layer.empty() || frame.name.empty()) throw ReportError("a frame lacks its layer or name");
  frame.layer = layer_named(layer);
  frame.symbol = text_in(json, "symbol");
  frame.library = text_in(json, "library");
  frame.op = text_in(json, "op");
  frame.thread = number_in<std::uint64_t>(json, "thread").value_or(frame.thread);
  frame.calls = number_in<std::uint64_t>(json, "calls").value_or(frame.calls);
  const Json& detail = object_in(json, "detail");
  frame.time = time_in(detail);
  if (Detail read = detail_of(detail); read != Detail()) frame.detail = std::move(read);
  if (const Json& source = object_in(json, "source"); !source.is_null()) {
    FrameSource& known = frame.source.edit();
    known.file = text_or_empty(source, "file");
    known.line = number_in<std::uint32_t>(source, "line").value_or(0);
    known.call_line = number_in<std::uint32_t>(source, "call_line");
    known.url = text_or_empty(source, "url");
    known.debug_info = flag_at(source, "debug_info");
    if (const Json& range = object_in(source, "call_range"); !range.is_null()) {
      const auto number = [&](const char* key) {
        return number_in<std::uint32_t>(range, key).value_or(0);
      };
      known.call_range = {number("column"), number("end_line"), number("end_column")};
    }
    if (known.line != 0)
      known.approximate =
          approximation_in(source, "exact", "interval", exact || has_own_source(frame));
    if (known.call_line)
      known.call_approximate =
          approximation_in(source, "call_exact", "call_interval",
                           exact || (parent != nullptr && has_own_source(*parent)));
  }
  return frame;
}

/// Reads each element of a list; none if the key is missing.
template <typename Read>
auto list_of(const Json& object, const char* key, const Read& read) {
  std::vector<decltype(read(object))> list;
  for (const Json& one : structure_in(object, key, Json::value_t::array, "a list"))
    list.push_back(read(one));
  return list;
}

std::vector<Shortfall> shortfalls_in(const Json& report) {
  const Json& list = structure_in(report, "shortfalls", Json::value_t::array, "a list");
  std::vector<Shortfall> shortfalls;
  if (list.is_null()) return shortfalls;
  for (const Json& one : list) {
    if (!one.is_object()) throw ReportError("a shortfall is not an object");
    Shortfall shortfall{text_or_empty(one, "kind"),
                        number_in<std::uint64_t>(one, "count").value_or(1)};
    if (shortfall.kind.empty()) throw ReportError("a shortfall lacks its kind");
    shortfalls.push_back(std::move(shortfall));
  }
  return shortfalls;
}

std::optional<CallsByName> python_calls_in(const Json& report) {
  const Json& object = object_in(report, "python_calls");
  if (object.is_null()) return std::nullopt;
  CallsByName calls;
  for (const auto& one : object.items())
    calls[one.key()] = number_in<std::uint64_t>(object, one.key().c_str()).value_or(0);
  return calls;
}

/// Trees may be deeper than the call stack allows, so the open levels are kept in a list.
std::vector<Frame> frames_of(const Json& report, bool exact) {
  struct Level {
    const Json* list;
    std::size_t next;
    std::vector<Frame> made;
  };
  std::vector<Level> open;
  open.push_back({&list_in(report, "roots"), 0, {}});
  while (true) {
    Level& level = open.back();
    if (level.next < level.list->size()) {
      const Json& json = (*level.list)[level.next++];
      const Frame* const parent = open.size() < 2 ? nullptr : &open[open.size() - 2].made.back();
      level.made.push_back(frame_of(json, exact, parent));
      open.push_back({&list_in(json, "children"), 0, {}});
      continue;
    }
    std::vector<Frame> made = std::move(level.made);
    open.pop_back();
    if (open.empty()) return made;
    open.back().made.back().children = std::move(made);
  }
}

}  // namespace

Frame::~Frame() {
  // Move grandchildren up, so that no child's destructor has children to destroy.
  while (!children.empty()) {
    Frame last = std::move(children.back());
    children.pop_back();
    children.insert(children.end(), std::make_move_iterator(last.children.begin()),
                    std::make_move_iterator(last.children.end()));
    last.children.clear();
  }
}

WrittenReport parse_report(std::string_view text) {
  if (text.size() > kMaxSize) throw ReportError("it is larger than a GiB");
  const Json json = read_json(text, text.size());
  if (!json.is_object()) throw ReportError("it is not a JSON object");
  const std::string schema = text_or_empty(json, "schema");
  if (schema.empty()) throw ReportError("it has no schema");
  if (schema != kSchema) {
    constexpr std::size_t kShown = 60;  // The schema may be any text.
    throw ReportError("its schema is " + schema.substr(0, kShown) + ", not " +
                      std::string(kSchema));
  }
  WrittenReport report;
  report.torch = torch_build_of(object_in(json, "torch"));
  report.device = text_or_empty(json, "device");
  if (const Json& device = object_in(json, "dry_run"); !device.is_null())
    report.dry_run = emulated_device_of(device);
  if (const Json& steps = object_in(json, "steps"); !steps.is_null())
    report.steps = recorded_steps_of(steps);
  report.compilations = list_of(json, "compilations", compilation_of);
  report.processes = list_of(json, "processes", process_of);
  if (const Json& source = object_in(json, "source"); !source.is_null()) {
    report.source_version = text_or_empty(source, "version");
    const auto truth = [&](const char* key, bool otherwise) {
      const Json& value = value_at(source, key);
      if (!value.is_null() && !value.is_boolean()) throw unlike(key, "true or false");
      return value.is_null() ? otherwise : value.get<bool>();
    };
    report.source_exact = truth("exact", false);
    report.source_of_torch = truth("of_torch", report.source_exact);
    report.source_from_wheel = text_or_empty(source, "made_from") == "wheel";
  }
  report.shortfalls = shortfalls_in(json);
  report.python_calls = python_calls_in(json);
  report.roots = frames_of(json, report.source_exact);
  return report;
}

WrittenReport parse_report(std::istream& stream) {
  std::string text;
  std::array<char, std::size_t{1} << 16> piece;
  while (text.size() <= kMaxSize && stream) {
    stream.read(piece.data(), piece.size());
    text.append(piece.data(), static_cast<std::size_t>(stream.gcount()));
  }
  if (stream.bad() || (text.empty() && !stream.eof()))
    throw ReportError("the stream can't be read");
  return parse_report(std::string_view(text));
}

}  // namespace optrace

#include "report/formats/report_sqlite.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "indexer/store/source_link.h"
#include "platform/text/json_writer.h"
#include "platform/text/printable_text.h"
#include "present/sqlite_database.h"
#include "report/json/detail_json.h"
#include "report/model/frame_name.h"
#include "report/model/frame_time.h"
#include "report/model/json_fields.h"
#include "report/model/shortfalls.h"
#include "report/model/walk_frames.h"
#include "report/summary/op_usage.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

// The application_id is "optr". user_version is the version of the tables: it changes if a table or
// column is removed or changes its meaning.
constexpr const char* kTables = R"sql(
PRAGMA application_id = 0x6f707472;
PRAGMA user_version = 1;
PRAGMA encoding = 'UTF-8';
BEGIN;
CREATE TABLE report (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE shortfalls (kind TEXT PRIMARY KEY, count INTEGER NOT NULL, what TEXT NOT NULL);
CREATE TABLE processes (number INTEGER PRIMARY KEY, process INTEGER, rank INTEGER);
CREATE TABLE frames (
  id INTEGER PRIMARY KEY, parent INTEGER REFERENCES frames, last INTEGER NOT NULL,
  depth INTEGER NOT NULL, layer TEXT NOT NULL, name TEXT NOT NULL, label TEXT NOT NULL, op TEXT,
  symbol TEXT, library TEXT, file TEXT, line INTEGER, call_line INTEGER, line_exact INTEGER,
  line_first INTEGER, line_last INTEGER, call_line_exact INTEGER, call_line_first INTEGER,
  call_line_last INTEGER, url TEXT, thread INTEGER NOT NULL, processes TEXT, calls INTEGER NOT NULL, total_ns INTEGER,
  own_ns INTEGER, shortest_ns INTEGER, longest_ns INTEGER, device_ns INTEGER, detail TEXT);
CREATE TABLE ops (
  op TEXT PRIMARY KEY, calls INTEGER NOT NULL, total_ns INTEGER NOT NULL, own_ns INTEGER NOT NULL);
CREATE TABLE op_calls (
  id INTEGER PRIMARY KEY, frame INTEGER NOT NULL REFERENCES frames, op TEXT, step TEXT NOT NULL,
  calls INTEGER NOT NULL, dispatch_key TEXT, arguments TEXT, results TEXT);
CREATE TABLE tensors (
  op_call INTEGER NOT NULL REFERENCES op_calls, role TEXT NOT NULL, position INTEGER NOT NULL,
  element INTEGER, name TEXT, dtype TEXT, device TEXT, shape TEXT, strides TEXT, elements INTEGER,
  requires_grad INTEGER, relation TEXT, relation_to TEXT);
CREATE TABLE storages (number INTEGER PRIMARY KEY, device TEXT, bytes INTEGER);
CREATE TABLE stored_tensors (
  frame INTEGER NOT NULL REFERENCES frames, role TEXT NOT NULL, position INTEGER NOT NULL,
  name TEXT, dtype TEXT, device TEXT, shape TEXT, strides TEXT,
  storage INTEGER REFERENCES storages, storage_offset INTEGER, version INTEGER,
  requires_grad INTEGER, written INTEGER NOT NULL, relation TEXT, relation_to TEXT);
CREATE TABLE copies (
  frame INTEGER NOT NULL REFERENCES frames, from_storage INTEGER NOT NULL REFERENCES storages,
  to_storage INTEGER NOT NULL REFERENCES storages, reason TEXT NOT NULL);
CREATE TABLE library_calls (
  id INTEGER PRIMARY KEY, frame INTEGER NOT NULL REFERENCES frames, library TEXT, call TEXT,
  kind TEXT NOT NULL, calls INTEGER NOT NULL, device_ns INTEGER, status TEXT, arguments TEXT);
CREATE TABLE launches (
  id INTEGER PRIMARY KEY, frame INTEGER NOT NULL REFERENCES frames, kernel TEXT NOT NULL,
  calls INTEGER NOT NULL, device INTEGER NOT NULL, stream INTEGER, device_ns INTEGER,
  arguments TEXT);
CREATE VIEW paths (id, path) AS
  SELECT id, (
    WITH RECURSIVE above (parent, path) AS (
      SELECT frames.parent, frames.label
      UNION ALL
      SELECT up.parent, up.label || ' > ' || above.path
      FROM above JOIN frames AS up ON up.id = above.parent)
    SELECT path FROM above WHERE parent IS NULL)
  FROM frames;
)sql";

constexpr const char* kIndexes = R"sql(
CREATE INDEX frames_by_parent ON frames (parent);
CREATE INDEX frames_by_name ON frames (name);
CREATE INDEX frames_by_op ON frames (op);
CREATE INDEX frames_by_symbol ON frames (symbol);
CREATE INDEX op_calls_by_frame ON op_calls (frame);
CREATE INDEX op_calls_by_op ON op_calls (op);
CREATE INDEX tensors_by_op_call ON tensors (op_call);
CREATE INDEX stored_tensors_by_frame ON stored_tensors (frame);
CREATE INDEX stored_tensors_by_storage ON stored_tensors (storage);
CREATE INDEX library_calls_by_frame ON library_calls (frame);
CREATE INDEX launches_by_frame ON launches (frame);
COMMIT;
)sql";

// SQLite's integers are signed.
std::int64_t number(std::uint64_t value) {
  constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return static_cast<std::int64_t>(std::min(value, kLargest));
}

SqliteValue text(std::string_view value) {
  return printable(value);
}

SqliteValue text_if_any(std::string_view value) {
  return value.empty() ? SqliteValue() : text(value);
}

// `value` is a string that may be missing.
template <class Text>
SqliteValue text_or_null(const Text& value) {
  return value ? text(*value) : SqliteValue();
}

SqliteValue number_or_null(std::uint64_t value, bool known) {
  return known ? SqliteValue(number(value)) : SqliteValue();
}

SqliteValue json_or_null(const Json& value) {
  return value.is_null() ? SqliteValue() : SqliteValue(write_json(value));
}

// Returns an object's value for a key; null if there is none.
const Json& at(const Json& object, const char* key) {
  static const Json kNull;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : kNull;
}

SqliteValue number_at(const Json& object, const char* key) {
  return number_or_null(count_at(object, key), at(object, key).is_number_unsigned());
}

SqliteValue integer_at(const Json& object, const char* key) {
  const Json& value = at(object, key);
  return value.is_number_integer() ? SqliteValue(value.get<std::int64_t>()) : SqliteValue();
}

SqliteValue truth_at(const Json& object, const char* key) {
  const Json& value = at(object, key);
  return number_or_null(value.is_boolean() && value.get<bool>() ? 1 : 0, value.is_boolean());
}

// Returns the JSON of an object without the keys that have columns of their own.
SqliteValue rest_of(Json record, std::initializer_list<const char*> columns) {
  for (const char* const column : columns) record.erase(column);
  return record.empty() ? SqliteValue() : SqliteValue(write_json(record));
}

// Returns the number of elements of a tensor; NULL if it is unknown or too large.
SqliteValue elements_of(const Json& shape) {
  std::int64_t elements = 1;
  if (!shape.is_array()) return {};
  for (const Json& size : shape) {
    if (!size.is_number_unsigned()) return {};
    if (__builtin_mul_overflow(elements, number(size.get<std::uint64_t>()), &elements)) return {};
  }
  return elements;
}

// A frame with its place in the tree. Frames are numbered from 1, parents first, so that those
// below a frame have the numbers up to `last`.
struct PlacedFrame {
  const Frame* frame = nullptr;
  std::size_t parent = 0;  // 0 for a root.
  std::size_t depth = 0;
  std::size_t last = 0;
};

std::vector<PlacedFrame> placed_frames(const Report& report) {
  std::vector<PlacedFrame> placed(1);
  walk_frames(report.roots, std::size_t{0}, [&](const Frame& frame, std::size_t parent) {
    const std::size_t depth = parent == 0 ? 0 : placed[parent].depth + 1;
    const std::size_t id = placed.size();
    placed.push_back({&frame, parent, depth, id});
    return id;
  });
  for (std::size_t id = placed.size() - 1; id > 0; --id) {
    PlacedFrame& parent = placed[placed[id].parent];
    parent.last = std::max(parent.last, placed[id].last);
  }
  return placed;
}

class DatabaseWriter {
 public:
  void write(const Report& report, OutputSink& sink) {
    add_properties(report);
    add_ops(report);
    const std::vector<PlacedFrame> placed = placed_frames(report);
    for (std::size_t id = 1; id < placed.size(); ++id) {
      add_frame(number(id), placed[id]);
      add_calls(number(id), *placed[id].frame);
    }
    add_storages();
    database_.execute(kIndexes);
    database_.write_to(sink);
  }

 private:
  // Creates the tables before the statements that fill them are prepared.
  struct Tables : SqliteDatabase {
    Tables() { execute(kTables); }
  };

  void add_properties(const Report& report) {
    const auto add = [this](const char* key, SqliteValue value) {
      properties_.add({std::string(key), std::move(value)});
    };
    add("schema", text("optrace.report/1"));
    for (const char* const key : {"version", "git_version", "cuda"})
      add((std::string("torch_") + key).c_str(), text_if_any(text_at(report.torch, key)));
    add("device", text(report.device));
    add("call", text_if_any(text_at(report.meta, "call")));
    add("source_version", text_if_any(report.source_version));
    add("source_exact", text(report.source_exact ? "1" : "0"));
    add("source_of_torch", text(report.source_of_torch ? "1" : "0"));
    add("source_made_from",
        report.source_version.empty() ? SqliteValue() : text(made_from(report.source_from_wheel)));
    add("dry_run", json_or_null(report.dry_run));
    add("steps", json_or_null(report.steps));
    for (const Shortfall& shortfall : report.shortfalls)
      shortfalls_.add(
          {text(shortfall.kind), number(shortfall.count), text(sentence_of(shortfall))});
    if (!report.processes.is_array()) return;
    std::int64_t position = 0;
    for (const Json& process : report.processes)
      processes_.add({position++, number_at(process, "id"), number_at(process, "rank")});
  }

  void add_ops(const Report& report) {
    for (const OpUsage& usage : op_usage(report))
      ops_.add({text(usage.op), number(usage.calls), number(usage.total), number(usage.own)});
  }

  void add_frame(std::int64_t id, const PlacedFrame& placed) {
    const Frame& frame = *placed.frame;
    const FrameSource source = frame.source.value_or(FrameSource());
    const LineBounds bounds = source.approximate.value_or(LineBounds());
    const LineBounds call_bounds = source.call_approximate.value_or(LineBounds());
    const Json times = frame.time ? time_json(*frame.time) : Json();
    const Json& device = object_at(frame.detail, "duration_ns");
    const Json& ranks = at(frame.detail, "ranks");
    const bool timed = !times.empty();
    frames_.add({id,
                 number_or_null(placed.parent, placed.parent != 0),
                 number(placed.last),
                 number(placed.depth),
                 std::string(name_of(frame.layer)),
                 text(frame.name),
                 frame_label(frame),
                 text_or_null(frame.op),
                 text_or_null(frame.symbol),
                 text_or_null(frame.library),
                 text_if_any(source.file),
                 number_or_null(source.line, source.line != 0),
                 number_or_null(source.call_line.value_or(0), source.call_line.has_value()),
                 number_or_null(source.approximate ? 0 : 1, source.line != 0),
                 number_or_null(bounds.first, bounds.first != 0),
                 number_or_null(bounds.last, bounds.first != 0),
                 number_or_null(source.call_approximate ? 0 : 1, source.call_line.has_value()),
                 number_or_null(call_bounds.first, call_bounds.first != 0),
                 number_or_null(call_bounds.last, call_bounds.first != 0),
                 text_if_any(source.url),
                 number(frame.thread),
                 json_or_null(ranks.is_null() ? at(frame.detail, "processes") : ranks),
                 number(frame.calls),
                 number_at(times, "total"),
                 number_or_null(own_time(frame), timed && frame.layer != Layer::device),
                 number_at(times, "shortest"),
                 number_at(times, "longest"),
                 number_at(device, "total"),
                 frame.time || !frame.detail.is_null() ? SqliteValue(details_.text_of(frame))
                                                       : SqliteValue()});
  }

  void add_calls(std::int64_t frame_id, const Frame& frame) {
    if (const std::string step = text_at(frame.detail, "step"); !step.empty())
      add_op_calls(frame_id, frame, step);
    add_stored_tensors(frame_id, object_at(frame.detail, "tensors"));
    for (const Json& call : list_at(frame.detail, "calls")) add_library_call(frame_id, frame, call);
    for (const Json& launch : list_at(frame.detail, "launches"))
      add_launch(frame_id, frame, launch);
  }

  void add_op_calls(std::int64_t frame_id, const Frame& frame, const std::string& step) {
    const Json& variants = list_at(frame.detail, "variants");
    if (variants.empty()) add_op_call(frame_id, frame, step, frame.detail, frame.calls);
    for (const Json& variant : variants)
      add_op_call(frame_id, frame, step, variant, count_at(variant, "calls"));
  }

  // Adds the calls of one kind. A frame has only the results of its most frequent kind.
  void add_op_call(std::int64_t frame_id, const Frame& frame, const std::string& step,
                   const Json& call, std::uint64_t calls) {
    const bool most_frequent = at(call, "arguments") == at(frame.detail, "arguments");
    const Json results = most_frequent ? list_at(frame.detail, "results") : Json::array();
    const std::int64_t id = ++last_op_call_;
    op_calls_.add({id, frame_id, text_or_null(frame.op), text(step), number(calls),
                   text_if_any(text_at(call, "dispatch_key")), json_or_null(at(call, "arguments")),
                   results.empty() ? SqliteValue() : SqliteValue(write_json(results))});
    std::int64_t position = 0;
    for (const Json& argument : list_at(call, "arguments"))
      add_tensors(id, "argument", position++, argument, at(argument, "value"));
    position = 0;
    for (const Json& result : results) add_tensors(id, "result", position++, result, result);
  }

  // Adds the tensor that a value of an argument or result contains, or those of a list.
  void add_tensors(std::int64_t op_call, const char* role, std::int64_t position,
                   const Json& described, const Json& value) {
    add_tensor(op_call, role, position, {}, described, value);
    if (!value.is_array()) return;
    std::int64_t element = 0;
    for (const Json& one : value) add_tensor(op_call, role, position, element++, described, one);
  }

  void add_tensor(std::int64_t op_call, const char* role, std::int64_t position,
                  SqliteValue element, const Json& described, const Json& value) {
    const Json& tensor = object_at(value, "tensor");
    if (tensor.empty()) return;
    tensors_.add({op_call, std::string(role), position, std::move(element),
                  text_if_any(text_at(described, "name")), text_if_any(text_at(tensor, "dtype")),
                  text_if_any(text_at(tensor, "device")), json_or_null(at(tensor, "shape")),
                  json_or_null(at(tensor, "strides")), elements_of(at(tensor, "shape")),
                  truth_at(tensor, "requires_grad"), text_if_any(text_at(value, "relation")),
                  text_if_any(text_at(value, "of"))});
  }

  // Adds what the journal of tensors tells about a call.
  void add_stored_tensors(std::int64_t frame_id, const Json& tensors) {
    for (const auto& [key, role] : {std::pair("arguments", "argument"), {"results", "result"}}) {
      std::int64_t position = 0;
      for (const Json& tensor : list_at(tensors, key)) {
        const std::uint64_t storage = count_at(tensor, "storage");
        if (storage != 0) {
          Storage& known = storages_seen_[storage];
          if (known.device.empty()) known.device = text_at(tensor, "device");
          known.bytes = std::max(known.bytes, count_at(tensor, "bytes"));
        }
        stored_tensors_.add(
            {frame_id, std::string(role), position++, text_if_any(text_at(tensor, "name")),
             text_if_any(text_at(tensor, "dtype")), text_if_any(text_at(tensor, "device")),
             json_or_null(at(tensor, "shape")), json_or_null(at(tensor, "strides")),
             number_or_null(storage, storage != 0), integer_at(tensor, "offset"),
             number_at(tensor, "version"), truth_at(tensor, "requires_grad"),
             std::int64_t{at(tensor, "written") == true}, text_if_any(text_at(tensor, "relation")),
             text_if_any(text_at(tensor, "of"))});
      }
    }
    for (const Json& copy : list_at(tensors, "copies")) {
      const std::uint64_t from = count_at(copy, "from");
      const std::uint64_t to = count_at(copy, "to");
      if (from == 0 || to == 0) continue;
      for (const std::uint64_t storage : {from, to}) storages_seen_[storage];
      copies_.add({frame_id, number(from), number(to), text(text_at(copy, "reason"))});
    }
  }

  // Adds the storages that the tree mentions. Their size is known if an op of the tree made them.
  void add_storages() {
    for (const auto& [storage, known] : storages_seen_)
      storages_.add({number(storage), text_if_any(known.device),
                     number_or_null(known.bytes, known.bytes != 0)});
  }

  void add_library_call(std::int64_t frame_id, const Frame& frame, const Json& call) {
    const std::string named = text_at(call, "library");
    const std::string function = text_at(call, "call");
    library_calls_.add(
        {++last_library_call_, frame_id,
         text_if_any(named.empty() ? text_at(frame.detail, "library") : named),
         text(function.empty() ? frame.name : function), text(text_at(call, "kind")),
         number(count_at(call, "calls")), number_at(object_at(call, "duration_ns"), "total"),
         text_if_any(text_at(call, "status")),
         rest_of(call, {"library", "call", "kind", "calls", "duration_ns", "status"})});
  }

  void add_launch(std::int64_t frame_id, const Frame& frame, const Json& launch) {
    launches_.add({++last_launch_, frame_id, text(frame.name), number(count_at(launch, "calls")),
                   number(count_at(launch, "device")), number_at(launch, "stream"),
                   number_at(object_at(launch, "duration_ns"), "total"),
                   rest_of(launch, {"calls", "device", "stream", "duration_ns"})});
  }

  DetailJson details_;
  Tables database_;
  SqliteInsert properties_{database_, "report", 2};
  SqliteInsert shortfalls_{database_, "shortfalls", 3};
  SqliteInsert processes_{database_, "processes", 3};
  SqliteInsert frames_{database_, "frames", 29};
  SqliteInsert ops_{database_, "ops", 4};
  SqliteInsert op_calls_{database_, "op_calls", 8};
  SqliteInsert tensors_{database_, "tensors", 13};
  SqliteInsert storages_{database_, "storages", 3};
  SqliteInsert stored_tensors_{database_, "stored_tensors", 15};
  SqliteInsert copies_{database_, "copies", 4};
  SqliteInsert library_calls_{database_, "library_calls", 9};
  SqliteInsert launches_{database_, "launches", 8};
  struct Storage {
    std::string device;
    std::uint64_t bytes = 0;
  };
  std::map<std::uint64_t, Storage> storages_seen_;
  std::int64_t last_op_call_ = 0, last_library_call_ = 0, last_launch_ = 0;
};

}  // namespace

void to_sqlite(const Report& report, OutputSink& sink) {
  DatabaseWriter().write(report, sink);
}

}  // namespace optrace

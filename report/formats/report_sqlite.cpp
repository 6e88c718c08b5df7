#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "indexer/store/source_link.h"
#include "platform/text/printable_text.h"
#include "present/sqlite_database.h"
#include "report/formats/writers.h"
#include "report/json/detail_json.h"
#include "report/model/frame_name.h"
#include "report/model/frame_time.h"
#include "report/model/op_call.h"
#include "report/model/shortfalls.h"
#include "report/model/walk_frames.h"
#include "report/summary/op_usage.h"

namespace optrace {
namespace {

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

SqliteValue number_or_null(const std::optional<std::uint64_t>& value) {
  return number_or_null(value.value_or(0), value.has_value());
}

// `json` is a JSON text.
SqliteValue json_if_any(std::string json) {
  return json.empty() ? SqliteValue() : SqliteValue(std::move(json));
}

SqliteValue sizes_or_null(const std::optional<Sizes>& sizes) {
  return sizes ? SqliteValue(sizes_json(*sizes)) : SqliteValue();
}

SqliteValue total_or_null(const std::optional<Duration>& duration) {
  return duration ? SqliteValue(number(duration->total)) : SqliteValue();
}

// Returns the number of elements of a tensor; NULL if it is unknown or too large.
SqliteValue elements_of(const std::optional<Sizes>& shape) {
  std::int64_t elements = 1;
  if (!shape) return {};
  for (const std::int64_t size : *shape)
    if (size < 0 || __builtin_mul_overflow(elements, size, &elements)) return {};
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
    add("torch_version", text_if_any(report.torch.version));
    add("torch_git_version", text_if_any(report.torch.git_version));
    add("torch_cuda", text_if_any(report.torch.cuda));
    add("device", text(report.device));
    add("call", text_if_any(report.recording.call));
    add("source_version", text_if_any(report.source_version));
    add("source_exact", text(report.source_exact ? "1" : "0"));
    add("source_of_torch", text(report.source_of_torch ? "1" : "0"));
    add("source_made_from",
        report.source_version.empty() ? SqliteValue() : text(made_from(report.source_from_wheel)));
    add("dry_run", report.dry_run ? SqliteValue(device_json(*report.dry_run)) : SqliteValue());
    add("steps", report.steps ? SqliteValue(steps_json(*report.steps)) : SqliteValue());
    for (const Shortfall& shortfall : report.shortfalls)
      shortfalls_.add(
          {text(shortfall.kind), number(shortfall.count), text(sentence_of(shortfall))});
    std::int64_t position = 0;
    for (const ReportProcess& process : report.processes)
      processes_.add({position++, number_or_null(process.id), number_or_null(process.rank)});
  }

  void add_ops(const Report& report) {
    for (const OpUsage& usage : op_usage(report))
      ops_.add({text(usage.op), number(usage.calls), number(usage.total), number(usage.own)});
  }

  void add_frame(std::int64_t id, const PlacedFrame& placed) {
    const Frame& frame = *placed.frame;
    const FrameSource source = frame.source.value_or(FrameSource());
    const LineInterval bounds = source.approximate.value_or(LineInterval());
    const LineInterval call_bounds = source.call_approximate.value_or(LineInterval());
    const FrameTime time = frame.time.value_or(FrameTime());
    const FrameTime::Range range = time.range.value_or(FrameTime::Range());
    const std::vector<std::uint64_t>& processes = frame.detail->processes.processes;
    frames_.add(
        {id,
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
         processes.empty() ? SqliteValue() : SqliteValue(numbers_json(processes)),
         number(frame.calls),
         number_or_null(time.total, frame.time.has_value()),
         number_or_null(own_time(frame), frame.time && frame.layer != Layer::device),
         number_or_null(range.shortest, time.range.has_value()),
         number_or_null(range.longest, time.range.has_value()),
         total_or_null(frame.detail->duration),
         frame.time || frame.detail ? SqliteValue(details_.text_of(frame)) : SqliteValue()});
  }

  void add_calls(std::int64_t frame_id, const Frame& frame) {
    for (const OpCalls& calls : op_calls(frame)) add_op_call(frame_id, frame, calls);
    if (frame.detail->dispatch->tensors)
      add_stored_tensors(frame_id, *frame.detail->dispatch->tensors);
    for (const LibraryCall& call : frame.detail->calls) add_library_call(frame_id, frame, call);
    for (const Launch& launch : frame.detail->launches) add_launch(frame_id, frame, launch);
  }

  // Adds the calls of one kind. A frame has only the results of its most frequent kind.
  void add_op_call(std::int64_t frame_id, const Frame& frame, const OpCalls& calls) {
    const DispatchDetail& dispatch = *frame.detail->dispatch;
    const bool most_frequent = calls.arguments == dispatch.arguments;
    const std::vector<ResultOrList> results =
        most_frequent ? dispatch.results.value_or(std::vector<ResultOrList>())
                      : std::vector<ResultOrList>();
    const std::int64_t id = ++last_op_call_;
    op_calls_.add({id, frame_id, text_or_null(frame.op), text(name_of(dispatch.step)),
                   number(calls.calls), text_if_any(calls.dispatch_key),
                   calls.arguments ? SqliteValue(arguments_json(*calls.arguments)) : SqliteValue(),
                   results.empty() ? SqliteValue() : SqliteValue(results_json(results))});
    if (calls.arguments) add_arguments(id, *calls.arguments);
    add_results(id, results);
  }

  // The place of a tensor among the arguments or results of an op's calls.
  struct TensorPlace {
    std::int64_t op_call = 0;
    const char* role = nullptr;
    std::int64_t position = 0;
    SqliteValue element;  // Its position in a list.
    std::string name;
    ResultRelation relation = ResultRelation::unknown;
    std::string of;
  };

  // Calls visit(value, position in the list) for a value, or for each of a list.
  template <typename One, typename Visit>
  static void for_each_value(const std::variant<One, std::vector<One>>& value, const Visit& visit) {
    if (const auto* const single = std::get_if<One>(&value)) {
      visit(*single, SqliteValue());
      return;
    }
    std::int64_t element = 0;
    for (const One& one : std::get<std::vector<One>>(value)) visit(one, SqliteValue(element++));
  }

  void add_arguments(std::int64_t op_call, const std::vector<Argument>& arguments) {
    std::int64_t position = 0;
    for (const Argument& argument : arguments) {
      for_each_value(argument.value, [&](const Scalar& value, SqliteValue element) {
        add_tensor({.op_call = op_call,
                    .role = "argument",
                    .position = position,
                    .element = std::move(element),
                    .name = argument.name,
                    .of = {}},
                   value);
      });
      ++position;
    }
  }

  void add_results(std::int64_t op_call, const std::vector<ResultOrList>& results) {
    std::int64_t position = 0;
    for (const ResultOrList& result_or_list : results) {
      for_each_value(result_or_list, [&](const Result& result, SqliteValue element) {
        add_tensor({.op_call = op_call,
                    .role = "result",
                    .position = position,
                    .element = std::move(element),
                    .name = {},
                    .relation = result.relation,
                    .of = result.of},
                   result.value);
      });
      ++position;
    }
  }

  // Adds the value if it is a tensor.
  void add_tensor(TensorPlace place, const Scalar& value) {
    const auto* const tensor = std::get_if<TensorFacts>(&value);
    if (tensor == nullptr) return;
    tensors_.add({place.op_call, std::string(place.role), place.position, std::move(place.element),
                  text_if_any(place.name), text_if_any(tensor->dtype), text_if_any(tensor->device),
                  sizes_or_null(tensor->shape), sizes_or_null(tensor->strides),
                  elements_of(tensor->shape), std::int64_t{tensor->requires_grad},
                  text_if_any(name_of(place.relation)), text_if_any(place.of)});
  }

  // Adds what the log of tensors tells about a call.
  void add_stored_tensors(std::int64_t frame_id, const StoredTensors& tensors) {
    add_stored_tensors(frame_id, "argument", tensors.arguments);
    add_stored_tensors(frame_id, "result", tensors.results);
    for (const StorageCopy& copy : tensors.copies) {
      if (copy.from == 0 || copy.to == 0) continue;
      for (const std::uint64_t storage : {copy.from, copy.to}) storages_seen_[storage];
      copies_.add({frame_id, number(copy.from), number(copy.to), text(copy.reason)});
    }
  }

  void add_stored_tensors(std::int64_t frame_id, const char* role,
                          const std::vector<StoredTensor>& tensors) {
    std::int64_t position = 0;
    for (const StoredTensor& tensor : tensors) {
      if (tensor.storage != 0) {
        Storage& known = storages_seen_[tensor.storage];
        if (known.device.empty()) known.device = tensor.device;
        known.bytes = std::max(known.bytes, tensor.new_bytes.value_or(0));
      }
      stored_tensors_.add({frame_id, std::string(role), position++, text_if_any(tensor.name),
                           text_if_any(tensor.dtype), text_if_any(tensor.device),
                           sizes_or_null(tensor.shape), sizes_or_null(tensor.strides),
                           number_or_null(tensor.storage, tensor.storage != 0), tensor.offset,
                           number(tensor.version), std::int64_t{tensor.requires_grad},
                           std::int64_t{tensor.written}, text_if_any(name_of(tensor.relation)),
                           text_if_any(tensor.of)});
    }
  }

  // Adds the storages that the tree mentions. Their size is known if an op of the tree made them.
  void add_storages() {
    for (const auto& [storage, known] : storages_seen_)
      storages_.add({number(storage), text_if_any(known.device),
                     number_or_null(known.bytes, known.bytes != 0)});
  }

  void add_library_call(std::int64_t frame_id, const Frame& frame, const LibraryCall& call) {
    library_calls_.add({++last_library_call_, frame_id,
                        text_if_any(call.library.empty() ? frame.detail->library : call.library),
                        text(call.function.empty() ? frame.name : call.function), text(call.kind),
                        number(call.calls), total_or_null(call.duration), text_if_any(call.status),
                        json_if_any(call_json(
                            call, {"library", "call", "kind", "calls", "duration_ns", "status"}))});
  }

  void add_launch(std::int64_t frame_id, const Frame& frame, const Launch& launch) {
    launches_.add({++last_launch_, frame_id, text(frame.name), number(launch.calls),
                   number(launch.device.value_or(0)), number_or_null(launch.stream),
                   total_or_null(launch.duration),
                   json_if_any(launch_json(launch, {"calls", "device", "stream", "duration_ns"}))});
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

void to_sqlite(const Report& report, const FormatOptions&, OutputSink& sink) {
  DatabaseWriter().write(report, sink);
}

}  // namespace optrace

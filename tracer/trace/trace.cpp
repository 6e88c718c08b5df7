#include "tracer/trace/trace.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include <fmt/core.h>
#include <xxhash.h>
#include <zstd.h>

#include "platform/error.h"
#include "platform/files/mapped_file.h"
#include "platform/files/output_file.h"
#include "platform/text/json_reader.h"
#include "platform/text/json_writer.h"
#include "tracer/trace/trace_format.h"
#include "tracer/trace/trace_meta_json.h"

namespace optrace {
namespace {

using namespace trace_format;

static_assert(std::endian::native == std::endian::little);

// The trace of a program with 3.3 MB of records takes 320 kB at level 3, 281 kB at level 6 (in 16
// ms) and 273 kB at level 9 (in 38 ms).
constexpr int kCompressionLevel = 6;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& reason,
                         const char* remedy) {
  throw Error(ExitStatus::usage, fmt::format("cannot read the trace {}: {}", path.string(), reason),
              remedy);
}

constexpr const char* kRecordAgain =
    "Copy the file again if it was copied, or record a new trace with --trace FILE.";

/// Reads numbers and texts from a decompressed section. Throws Error(usage) if the data is
/// malformed.
class SectionReader {
 public:
  SectionReader(std::span<const std::byte> bytes, const std::filesystem::path& path,
                const char* section)
      : bytes_(bytes), path_(path), section_(section) {}

  [[noreturn]] void fail(const char* reason) const {
    refuse(path_, fmt::format("its section '{}' is corrupt: {}", section_, reason), kRecordAgain);
  }

  std::uint64_t number() {
    if (!bytes_.empty() && std::to_integer<std::uint8_t>(bytes_.front()) < 0x80) {
      const auto value = std::to_integer<std::uint64_t>(bytes_.front());  // As most numbers.
      bytes_ = bytes_.subspan(1);
      return value;
    }
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) fail("it ends too early");
      const auto byte = std::to_integer<std::uint64_t>(bytes_.front());
      bytes_ = bytes_.subspan(1);
      const std::uint64_t part = byte & 0x7F;
      if (shift == 63 && part > 1) break;
      value |= part << shift;
      if (byte < 0x80) return value;
    }
    fail("a number has more than 64 bits");
  }

  std::uint32_t number32() {
    const std::uint64_t value = number();
    if (value > std::numeric_limits<std::uint32_t>::max()) fail("a number has more than 32 bits");
    return static_cast<std::uint32_t>(value);
  }

  /// Reads an index below `count`; returns kNone if none is stored.
  std::uint32_t index(std::size_t count) {
    const std::uint64_t stored = number();
    if (stored == 0) return kNone;
    if (stored > count) fail("an index points behind its table");
    return static_cast<std::uint32_t>(stored - 1);
  }

  std::uint32_t definite_index(std::size_t count) {
    const std::uint32_t value = index(count);
    if (value == kNone) fail("an index is missing");
    return value;
  }

  /// Reads a count of elements of at least `least_bytes` each, so that a false count can't request
  /// memory.
  std::size_t count(std::size_t least_bytes, std::size_t most = kNone - 1) {
    const std::uint64_t value = number();
    if (value > bytes_.size() / least_bytes || value > most) fail("a count is too large");
    return static_cast<std::size_t>(value);
  }

  std::string text() {
    const std::size_t size = count(1);
    std::string value(reinterpret_cast<const char*>(bytes_.data()), size);
    bytes_ = bytes_.subspan(size);
    return value;
  }

  std::uint64_t difference_to(std::uint64_t before) {
    const std::uint64_t coded = number();
    return before + ((coded >> 1) ^ (0 - (coded & 1)));
  }

  void expect_end() const {
    if (!bytes_.empty()) fail("bytes are left over at its end");
  }

 private:
  std::span<const std::byte> bytes_;
  const std::filesystem::path& path_;
  const char* section_;
};

class SectionWriter {
 public:
  void number(std::uint64_t value) {
    while (value >= 0x80) {
      bytes_.push_back(static_cast<char>((value & 0x7F) | 0x80));
      value >>= 7;
    }
    bytes_.push_back(static_cast<char>(value));
  }

  void index(std::uint32_t value) { number(value == kNone ? 0 : std::uint64_t{value} + 1); }

  void text(std::string_view value) {
    number(value.size());
    bytes_ += value;
  }

  void raw(std::string_view value) { bytes_ += value; }

  void difference(std::uint64_t value, std::uint64_t before) {
    const std::uint64_t change = value - before;
    number((change << 1) ^ (0 - (change >> 63)));
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

TraceMeta read_meta(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (is_nested_deeper(text, kMaxJsonDepth)) {
    refuse(path, "its section 'meta' is corrupt: it is nested too deeply", kRecordAgain);
  }
  const nlohmann::json meta = read_json(text);
  if (meta.is_object()) return trace_meta_of(meta);
  refuse(path, "its section 'meta' is corrupt: it is not a JSON object", kRecordAgain);
}

void read_modules(SectionReader reader, Trace& trace) {
  trace.modules.resize(reader.count(3));
  for (TraceModule& module : trace.modules) {
    module.path = reader.text();
    module.build_id = reader.text();
    const std::uint64_t flags = reader.number();
    if ((flags & ~kHasDebugInfo) != 0) reader.fail("a module has unknown flags");
    module.debug_info = (flags & kHasDebugInfo) != 0;
  }
  reader.expect_end();
}

void read_functions(SectionReader reader, Trace& trace) {
  trace.functions.resize(reader.count(6));
  for (TraceFunction& function : trace.functions) {
    function.module = reader.index(trace.modules.size());
    function.address = reader.number();
    function.symbol = reader.text();
    function.source_file = reader.text();
    const std::uint64_t flags = reader.number();
    if ((flags & ~kKnownFlags) != 0) reader.fail("a function has unknown flags");
    function.probed = (flags & kProbed) != 0;
    function.enters_itself = (flags & kEntersItself) != 0;
    function.jumps_indirectly = (flags & kJumpsIndirectly) != 0;
    function.tail_calls.resize(reader.count(1));
    for (std::uint32_t& target : function.tail_calls) {
      target = reader.definite_index(trace.functions.size());
    }
  }
  reader.expect_end();
}

void read_python_functions(SectionReader reader, Trace& trace) {
  trace.python_functions.resize(reader.count(3));
  for (PythonFunction& function : trace.python_functions) {
    function.name = reader.text();
    function.file = reader.text();
    function.first_line = reader.number32();
  }
  reader.expect_end();
}

// The number of things that an event's `what` may refer to.
std::size_t named_by(EventKind kind, const Trace& trace) {
  switch (kind) {
    case EventKind::function_entry:
    case EventKind::caller:
      return trace.functions.size();
    case EventKind::python_call:
    case EventKind::python_return:
    case EventKind::builtin_call:
    case EventKind::builtin_return:
      return trace.python_functions.size();
    case EventKind::python_position:
    case EventKind::python_ran:
      return std::max<std::size_t>(trace.python_functions.size(), 1);
    default:
      return std::max<std::size_t>(trace.op_records.size(), 1);
  }
}

std::size_t named_by(PathKind kind, const Trace& trace) {
  switch (kind) {
    case PathKind::python:
      return trace.python_functions.size();
    case PathKind::node:
    case PathKind::op:
      return trace.op_records.size();
    default:
      return trace.functions.size();
  }
}

// Threads come later in the file: check_paths() checks the paths' thread indexes.
void read_paths(SectionReader reader, Trace& trace) {
  for (const auto statistic : kCallTreeStatistics) trace.statistics.*statistic = reader.number();
  trace.paths.resize(reader.count(23));
  for (std::size_t i = 0; i < trace.paths.size(); ++i) {
    TracePath& path = trace.paths[i];
    const std::uint64_t kind = reader.number();
    if (kind > static_cast<std::uint64_t>(PathKind::merged) * 2 + 1) {
      reader.fail("a path is of an unknown kind");
    }
    path.kind = static_cast<PathKind>(kind / 2);
    path.tail_call = kind % 2 != 0;
    path.parent = reader.index(i);
    path.what = reader.index(kNone - 1);
    path.line = reader.number32();
    path.column = reader.number32();
    path.end_line = reader.number32();
    path.end_column = reader.number32();
    path.builtin = reader.index(trace.python_functions.size());
    path.call_offset = reader.number32();
    path.thread = reader.number32();
    path.thread_count = reader.number32();
    path.caused_by = reader.index(trace.paths.size());
    path.calls = reader.number();
    path.total_time = reader.number();
    path.shortest_time = reader.number();
    path.longest_time = reader.number();
    path.ops.resize(reader.count(3, kMaxTallies));
    for (OpTally& tally : path.ops) {
      tally = {reader.number32(), reader.number32(), reader.number()};
    }
    path.arguments.resize(reader.count(3, kMaxTallies));
    for (ArgumentTally& tally : path.arguments) {
      tally = {reader.number(), reader.number(), reader.number()};
    }
    path.ops_left_out = reader.number();
    path.activities.resize(reader.count(5, kMaxActivities));
    for (ActivityTally& tally : path.activities) {
      tally = {reader.number32(), reader.number(), reader.number(), reader.number(),
               reader.number()};
    }
    path.activities_left_out = reader.number();
    path.returned.resize(reader.count(2, kMaxTallies));
    for (ReturnTally& tally : path.returned) tally = {reader.number(), reader.number()};
    path.returned_left_out = reader.number();
  }
  reader.expect_end();
}

void read_op_records(SectionReader reader, Trace& trace) {
  trace.op_records.resize(reader.count(1));
  for (std::string& record : trace.op_records) record = reader.text();
  reader.expect_end();
}

// Checks the indexes in paths after everything has been read.
void check_paths(const Trace& trace, const std::filesystem::path& path) {
  for (const TracePath& checked : trace.paths) {
    const bool named = checked.what == kNone ? checked.kind != PathKind::python
                                             : checked.what < named_by(checked.kind, trace);
    const auto known = [&](std::uint32_t record) {
      return record == 0 || record < trace.op_records.size();
    };
    const bool told = std::ranges::all_of(checked.ops, [&](const OpTally& tally) {
      return known(tally.record) && known(tally.results);
    });
    const bool done = std::ranges::all_of(
        checked.activities, [&](const ActivityTally& tally) { return known(tally.record); });
    if (!named || !told || !done || checked.thread >= trace.threads.size()) {
      refuse(path, "its section 'paths' is corrupt: an index points behind its table",
             kRecordAgain);
    }
  }
}

/// Counts the bytes of text that a report repeats for each path that refers to it.
std::uint64_t named_bytes(const Trace& trace) {
  const auto record = [&](std::uint32_t number) -> std::uint64_t {
    return number < trace.op_records.size() ? trace.op_records[number].size() : 0;
  };
  const auto python = [&](std::uint32_t number) -> std::uint64_t {
    if (number >= trace.python_functions.size()) return 0;
    const PythonFunction& function = trace.python_functions[number];
    return function.name.size() + function.file.size();
  };
  const auto native = [&](std::uint32_t number) -> std::uint64_t {
    if (number >= trace.functions.size()) return 0;
    const TraceFunction& function = trace.functions[number];
    const std::uint64_t library =
        function.module < trace.modules.size() ? trace.modules[function.module].path.size() : 0;
    return 2 * function.symbol.size() + function.source_file.size() + library;
  };
  std::uint64_t bytes = 0;
  for (const TracePath& path : trace.paths) {
    bytes += path.kind == PathKind::python                              ? python(path.what)
             : path.kind == PathKind::node || path.kind == PathKind::op ? record(path.what)
                                                                        : native(path.what);
    bytes += python(path.builtin);
    for (const OpTally& tally : path.ops) bytes += record(tally.record) + record(tally.results);
    for (const ActivityTally& tally : path.activities) bytes += record(tally.record);
  }
  return bytes;
}

// The two numbers before a thread's initial stack.
constexpr std::size_t kThreadHeadBytes = 20;

ThreadRecord& read_thread_head(SectionReader& reader, Trace& trace) {
  ThreadRecord& thread = trace.threads.emplace_back();
  thread.id = reader.number();
  thread.lost = reader.number();
  return thread;
}

void read_thread(SectionReader reader, Trace& trace) {
  ThreadRecord& thread = read_thread_head(reader, trace);
  thread.initial_stack.resize(reader.count(3));
  for (InitialFrame& frame : thread.initial_stack) {
    frame.function = reader.index(trace.functions.size());
    frame.stack_pointer = reader.number();
    frame.return_address = reader.number();
  }
  thread.events.resize(reader.count(7));
  Event before;
  for (Event& event : thread.events) {
    const std::uint64_t kind = reader.number();
    if (kind > static_cast<std::uint64_t>(EventKind::caller)) {
      reader.fail("an event is of an unknown kind");
    }
    event.kind = static_cast<EventKind>(kind);
    event.what = reader.definite_index(named_by(event.kind, trace));
    event.caller = reader.index(trace.functions.size());
    event.line = reader.number32();
    event.stack_pointer = reader.difference_to(before.stack_pointer);
    event.return_address = reader.difference_to(before.return_address);
    event.time = reader.difference_to(before.time);
    before = event;
  }
  reader.expect_end();
}

const char* name_of(SectionKind kind) {
  switch (kind) {
    case SectionKind::meta:
      return "meta";
    case SectionKind::modules:
      return "modules";
    case SectionKind::functions:
      return "functions";
    case SectionKind::python_functions:
      return "python functions";
    case SectionKind::paths:
      return "paths";
    case SectionKind::op_records:
      return "op records";
    case SectionKind::thread:
      return "thread";
  }
  return nullptr;
}

/// Returns the kind of the section at `position` (from 0).
SectionKind kind_at(std::uint32_t position) {
  const auto last = static_cast<std::uint32_t>(SectionKind::thread);
  return static_cast<SectionKind>(std::min(position + 1, last));
}

/// Decompresses the first `wanted` of the `decoded_size` bytes in a section's frame. Returns
/// nullopt if `stored` is not a frame, or has another decoded size.
std::optional<std::vector<std::byte>> decompress(std::span<const std::byte> stored,
                                                 std::uint64_t decoded_size, std::size_t wanted) {
  std::vector<std::byte> decoded(wanted);
  if (wanted == decoded_size) {
    const std::size_t size =
        ZSTD_decompress(decoded.data(), decoded.size(), stored.data(), stored.size());
    if (ZSTD_isError(size) != 0 || size != decoded.size()) return std::nullopt;
    return decoded;
  }
  if (ZSTD_getFrameContentSize(stored.data(), stored.size()) != decoded_size) return std::nullopt;
  const std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> stream(ZSTD_createDStream(),
                                                                          &ZSTD_freeDStream);
  ZSTD_inBuffer in{stored.data(), stored.size(), 0};
  ZSTD_outBuffer out{decoded.data(), decoded.size(), 0};
  while (out.pos < out.size) {
    const std::size_t before = in.pos + out.pos;
    const std::size_t left = ZSTD_decompressStream(stream.get(), &out, &in);
    if (ZSTD_isError(left) != 0 || in.pos + out.pos == before) return std::nullopt;
  }
  return decoded;
}

template <typename T>
T take(std::span<const std::byte>& bytes, const std::filesystem::path& path) {
  if (bytes.size() < sizeof(T)) refuse(path, "it is truncated", kRecordAgain);
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  bytes = bytes.subspan(sizeof(T));
  return value;
}

std::string write_functions(const Trace& trace) {
  SectionWriter writer;
  writer.number(trace.functions.size());
  for (const TraceFunction& function : trace.functions) {
    writer.index(function.module);
    writer.number(function.address);
    writer.text(function.symbol);
    writer.text(function.source_file);
    writer.number((function.probed ? kProbed : 0) | (function.enters_itself ? kEntersItself : 0) |
                  (function.jumps_indirectly ? kJumpsIndirectly : 0));
    writer.number(function.tail_calls.size());
    for (const std::uint32_t target : function.tail_calls) writer.index(target);
  }
  return writer.bytes();
}

std::string write_modules(const Trace& trace) {
  SectionWriter writer;
  writer.number(trace.modules.size());
  for (const TraceModule& module : trace.modules) {
    writer.text(module.path);
    writer.text(module.build_id);
    writer.number(module.debug_info ? kHasDebugInfo : 0);
  }
  return writer.bytes();
}

std::string write_python_functions(const Trace& trace) {
  SectionWriter writer;
  writer.number(trace.python_functions.size());
  for (const PythonFunction& function : trace.python_functions) {
    writer.text(function.name);
    writer.text(function.file);
    writer.number(function.first_line);
  }
  return writer.bytes();
}

std::string write_paths(const Trace& trace) {
  SectionWriter writer;
  for (const auto statistic : kCallTreeStatistics) writer.number(trace.statistics.*statistic);
  writer.number(trace.paths.size());
  for (const TracePath& path : trace.paths) {
    writer.number(static_cast<std::uint64_t>(path.kind) * 2 + (path.tail_call ? 1 : 0));
    for (const std::uint32_t index : {path.parent, path.what}) writer.index(index);
    for (const std::uint32_t number : {path.line, path.column, path.end_line, path.end_column}) {
      writer.number(number);
    }
    writer.index(path.builtin);
    writer.number(path.call_offset);
    writer.number(path.thread);
    writer.number(path.thread_count);
    writer.index(path.caused_by);
    for (const std::uint64_t number :
         {path.calls, path.total_time, path.shortest_time, path.longest_time}) {
      writer.number(number);
    }
    writer.number(path.ops.size());
    for (const OpTally& tally : path.ops) {
      writer.number(tally.record);
      writer.number(tally.results);
      writer.number(tally.calls);
    }
    writer.number(path.arguments.size());
    for (const ArgumentTally& tally : path.arguments) {
      for (const std::uint64_t number : {tally.first, tally.second, tally.calls}) {
        writer.number(number);
      }
    }
    writer.number(path.ops_left_out);
    writer.number(path.activities.size());
    for (const ActivityTally& tally : path.activities) {
      for (const std::uint64_t number : {std::uint64_t{tally.record}, tally.times, tally.total_time,
                                         tally.shortest_time, tally.longest_time}) {
        writer.number(number);
      }
    }
    writer.number(path.activities_left_out);
    writer.number(path.returned.size());
    for (const ReturnTally& tally : path.returned) {
      writer.number(tally.value);
      writer.number(tally.calls);
    }
    writer.number(path.returned_left_out);
  }
  return writer.bytes();
}

std::string write_op_records(const Trace& trace) {
  SectionWriter writer;
  writer.number(trace.op_records.size());
  for (const std::string& record : trace.op_records) writer.text(record);
  return writer.bytes();
}

std::string write_thread(const ThreadRecord& thread) {
  SectionWriter writer;
  writer.number(thread.id);
  writer.number(thread.lost);
  writer.number(thread.initial_stack.size());
  for (const InitialFrame& frame : thread.initial_stack) {
    writer.index(frame.function);
    writer.number(frame.stack_pointer);
    writer.number(frame.return_address);
  }
  writer.number(thread.events.size());
  Event before;
  for (const Event& event : thread.events) {
    writer.number(static_cast<std::uint64_t>(event.kind));
    writer.index(event.what);
    writer.index(event.caller);
    writer.number(event.line);
    writer.difference(event.stack_pointer, before.stack_pointer);
    writer.difference(event.return_address, before.return_address);
    writer.difference(event.time, before.time);
    before = event;
  }
  return writer.bytes();
}

/// Compresses sections one after another into a file's body.
class BodyWriter {
 public:
  explicit BodyWriter(const std::filesystem::path& path) : path_(path) {}

  void add(SectionKind kind, std::string_view decoded) {
    decoded_bytes_ += decoded.size();
    if (decoded_bytes_ > kMaxDecodedBytes || ++section_count_ > kMaxSections) {
      throw Error(ExitStatus::failed,
                  fmt::format("the trace is too large for {}: it has more than {} MiB of records",
                              path_.string(), kMaxDecodedBytes >> 20),
                  "Trace a shorter run.");
    }
    const std::size_t start = body_.size();
    body_.resize(start + sizeof(SectionHeader) + ZSTD_compressBound(decoded.size()));
    const std::size_t stored = ZSTD_compress(body_.data() + start + sizeof(SectionHeader),
                                             body_.size() - start - sizeof(SectionHeader),
                                             decoded.data(), decoded.size(), kCompressionLevel);
    if (ZSTD_isError(stored) != 0) {
      throw Error(ExitStatus::failed,
                  fmt::format("compressing the trace failed: {}", ZSTD_getErrorName(stored)),
                  "Free some memory.");
    }
    last_ = {kind, 0, stored, decoded.size()};
    last_start_ = start;
    std::memcpy(body_.data() + start, &last_, sizeof last_);
    body_.resize(start + sizeof last_ + stored);
  }

  /// Pads the last section so that the file is large enough for a reader's limits (kPadding).
  void pad(std::uint64_t named_bytes) {
    const std::uint64_t least =
        std::max(kDecoded.least_file(decoded_bytes_), kNamed.least_file(named_bytes));
    if (least <= sizeof(FileHeader) + body_.size()) return;
    const auto size = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(least, std::numeric_limits<std::uint32_t>::max()));
    const std::uint32_t frame[] = {kPadding, size};
    body_.append(reinterpret_cast<const char*>(frame), sizeof frame);
    body_.append(size, '\0');
    last_.stored_size += sizeof frame + size;
    std::memcpy(body_.data() + last_start_, &last_, sizeof last_);
  }

  std::uint32_t section_count() const { return section_count_; }
  std::string_view body() const { return body_; }

 private:
  const std::filesystem::path& path_;
  std::string body_;
  SectionHeader last_{};
  std::size_t last_start_ = 0;
  std::uint64_t decoded_bytes_ = 0;
  std::uint32_t section_count_ = 0;
};

}  // namespace

Trace read_trace(const std::filesystem::path& path, TraceParts parts) {
  Trace trace;
  read_trace(path, parts, trace);
  return trace;
}

void read_trace(const std::filesystem::path& path, TraceParts parts, Trace& trace) {
  const MappedFile file(path, MappedFile::Trust::none);  // The file may be rewritten meanwhile.
  std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() < sizeof kMagic || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) {
    refuse(path, "it is not an optrace trace", "Give a file written by `optrace OP --trace FILE`.");
  }
  const auto header = take<FileHeader>(bytes, path);
  if (header.version != kVersion) {
    refuse(path,
           fmt::format("it has format version {}, and this optrace reads version {}",
                       header.version, kVersion),
           "Read it with the version of optrace that wrote it, or record the trace again with this "
           "one.");
  }
  if (XXH3_64bits(bytes.data(), bytes.size()) != header.checksum) {
    refuse(path, "it is truncated or corrupt (its checksum differs)", kRecordAgain);
  }
  const auto single_sections = static_cast<std::uint32_t>(SectionKind::thread) - 1;
  if (header.section_count < single_sections || header.section_count > kMaxSections) {
    refuse(path, "it is corrupt: sections are missing", kRecordAgain);
  }

  trace.threads.clear();
  std::uint64_t decoded_bytes = 0;
  for (std::uint32_t position = 0; position < header.section_count; ++position) {
    const auto section = take<SectionHeader>(bytes, path);
    const SectionKind kind = kind_at(position);
    decoded_bytes += section.decoded_size;
    if (section.kind != kind || section.reserved != 0) {
      refuse(path, fmt::format("it is corrupt: section {} is of an unexpected kind", position),
             kRecordAgain);
    }
    if (section.stored_size > bytes.size() || section.decoded_size > kMaxDecodedBytes ||
        decoded_bytes > std::min(kMaxDecodedBytes, kDecoded.most(file.bytes().size())) ||
        (kind == SectionKind::meta && section.decoded_size > kMaxMetaBytes)) {
      refuse(path, fmt::format("it is corrupt: section '{}' is too large", name_of(kind)),
             kRecordAgain);
    }
    const std::span<const std::byte> stored = bytes.first(section.stored_size);
    bytes = bytes.subspan(section.stored_size);
    const bool head_only = kind == SectionKind::thread && parts == TraceParts::without_events;
    const std::size_t wanted = head_only
                                   ? std::min<std::size_t>(section.decoded_size, kThreadHeadBytes)
                                   : section.decoded_size;
    const std::optional<std::vector<std::byte>> decompressed =
        decompress(stored, section.decoded_size, wanted);
    if (!decompressed) {
      refuse(path, fmt::format("it is corrupt: section '{}' can't be decompressed", name_of(kind)),
             kRecordAgain);
    }
    const std::vector<std::byte>& decoded = *decompressed;

    const SectionReader reader(decoded, path, name_of(kind));
    switch (kind) {
      case SectionKind::meta:
        trace.meta = read_meta(decoded, path);
        break;
      case SectionKind::modules:
        read_modules(reader, trace);
        break;
      case SectionKind::functions:
        read_functions(reader, trace);
        break;
      case SectionKind::python_functions:
        read_python_functions(reader, trace);
        break;
      case SectionKind::paths:
        read_paths(reader, trace);
        break;
      case SectionKind::op_records:
        read_op_records(reader, trace);
        break;
      case SectionKind::thread:
        if (head_only) {
          SectionReader head = reader;
          read_thread_head(head, trace);
        } else {
          read_thread(reader, trace);
        }
        break;
    }
  }
  if (!bytes.empty()) refuse(path, "it is corrupt: bytes follow its last section", kRecordAgain);
  check_paths(trace, path);
  if (named_bytes(trace) > kNamed.most(file.bytes().size())) {
    refuse(path, "it is corrupt: its paths repeat more text than a trace of its size has",
           kRecordAgain);
  }
}

void write_trace(const Trace& trace, const std::filesystem::path& path) {
  BodyWriter writer(path);
  // A program's file names need not be UTF-8, but JSON text must be.
  writer.add(SectionKind::meta, write_json(to_json(trace.meta)));
  writer.add(SectionKind::modules, write_modules(trace));
  writer.add(SectionKind::functions, write_functions(trace));
  writer.add(SectionKind::python_functions, write_python_functions(trace));
  writer.add(SectionKind::paths, write_paths(trace));
  writer.add(SectionKind::op_records, write_op_records(trace));
  for (const ThreadRecord& thread : trace.threads) {
    writer.add(SectionKind::thread, write_thread(thread));
  }
  writer.pad(named_bytes(trace));

  FileHeader header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.section_count = writer.section_count();
  header.checksum = XXH3_64bits(writer.body().data(), writer.body().size());
  OutputFile file(path);
  file.write(std::as_bytes(std::span(&header, 1)));
  file.write(writer.body());
  file.commit();
}

}  // namespace optrace

#include "tracer/trace/trace_sections.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/core.h>

#include "platform/error.h"

namespace optrace::trace_format {
namespace {

/// Reads the fields of a decompressed section. Throws Error(usage) if the data is malformed.
class SectionReader {
 public:
  static constexpr bool kReads = true;
  struct Flag {
    std::uint64_t bit;
    bool& value;
  };

  SectionReader(std::span<const std::byte> bytes, const std::filesystem::path& path,
                SectionKind kind)
      : bytes_(bytes), path_(path), kind_(kind) {}

  [[noreturn]] void fail(const char* reason) const {
    refuse_trace(path_, fmt::format("its section '{}' is corrupt: {}", name_of(kind_), reason));
  }

  void number(std::uint64_t& value) { value = next(); }

  void number(std::uint32_t& value) {
    const std::uint64_t stored = next();
    if (stored > std::numeric_limits<std::uint32_t>::max()) fail("a number has more than 32 bits");
    value = static_cast<std::uint32_t>(stored);
  }

  /// Reads an index below `count`; kNone if none is stored.
  void index(std::uint32_t& value, std::size_t count) {
    const std::uint64_t stored = next();
    if (stored > count) fail("an index points behind its table");
    value = stored == 0 ? kNone : static_cast<std::uint32_t>(stored - 1);
  }

  void definite_index(std::uint32_t& value, std::size_t count) {
    index(value, count);
    if (value == kNone) fail("an index is missing");
  }

  void text(std::string& value) {
    const std::size_t size = count(1, kNone - 1);
    value.assign(reinterpret_cast<const char*>(bytes_.data()), size);
    bytes_ = bytes_.subspan(size);
  }

  void flags(std::initializer_list<Flag> flags, const char* unknown) {
    std::uint64_t stored = next();
    for (const Flag& flag : flags) {
      flag.value = (stored & flag.bit) != 0;
      stored &= ~flag.bit;
    }
    if (stored != 0) fail(unknown);
  }

  /// Reads the size of a list whose elements have at least `least_bytes` each, so that a false one
  /// can't request memory.
  template <typename T>
  void size(std::vector<T>& list, std::size_t least_bytes, std::size_t most = kNone - 1) {
    list.resize(count(least_bytes, most));
  }

  void difference(std::uint64_t& value, std::uint64_t before) {
    const std::uint64_t coded = next();
    value = before + ((coded >> 1) ^ (0 - (coded & 1)));
  }

  void expect_end() const {
    if (!bytes_.empty()) fail("bytes are left over at its end");
  }

 private:
  std::uint64_t next() {
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

  std::size_t count(std::size_t least_bytes, std::size_t most) {
    const std::uint64_t value = next();
    if (value > bytes_.size() / least_bytes || value > most) fail("a count is too large");
    return static_cast<std::size_t>(value);
  }

  std::span<const std::byte> bytes_;
  const std::filesystem::path& path_;
  SectionKind kind_;
};

/// Writes the fields that a SectionReader reads. The limits of the reader are ignored.
class SectionWriter {
 public:
  static constexpr bool kReads = false;
  struct Flag {
    std::uint64_t bit;
    bool value;
  };

  void number(std::uint64_t value) {
    while (value >= 0x80) {
      bytes_.push_back(static_cast<char>((value & 0x7F) | 0x80));
      value >>= 7;
    }
    bytes_.push_back(static_cast<char>(value));
  }

  void index(std::uint32_t value, std::size_t) {
    number(value == kNone ? 0 : std::uint64_t{value} + 1);
  }
  void definite_index(std::uint32_t value, std::size_t count) { index(value, count); }

  void text(std::string_view value) {
    number(value.size());
    bytes_ += value;
  }

  void flags(std::initializer_list<Flag> flags, const char*) {
    std::uint64_t bits = 0;
    for (const Flag& flag : flags) bits |= flag.value ? flag.bit : 0;
    number(bits);
  }

  template <typename T>
  void size(const std::vector<T>& list, std::size_t, std::size_t = 0) {
    number(list.size());
  }

  void difference(std::uint64_t value, std::uint64_t before) {
    const std::uint64_t change = value - before;
    number((change << 1) ^ (0 - (change >> 63)));
  }

  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

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

// Each of the following names the fields of a section in their order. `section` reads them into the
// trace, or writes those of a constant trace.

void modules(auto& section, auto& trace) {
  section.size(trace.modules, 3);
  for (auto& module : trace.modules) {
    section.text(module.path);
    section.text(module.build_id);
    section.flags({{kHasDebugInfo, module.debug_info}}, "a module has unknown flags");
  }
}

void functions(auto& section, auto& trace) {
  section.size(trace.functions, 6);
  for (auto& function : trace.functions) {
    section.index(function.module, trace.modules.size());
    section.number(function.address);
    section.text(function.symbol);
    section.text(function.source_file);
    section.flags({{kProbed, function.probed},
                   {kEntersItself, function.enters_itself},
                   {kJumpsIndirectly, function.jumps_indirectly}},
                  "a function has unknown flags");
    section.size(function.tail_calls, 1);
    for (auto& target : function.tail_calls) section.definite_index(target, trace.functions.size());
  }
}

void python_functions(auto& section, auto& trace) {
  section.size(trace.python_functions, 3);
  for (auto& function : trace.python_functions) {
    section.text(function.name);
    section.text(function.file);
    section.number(function.first_line);
  }
}

void counts(auto& section, auto& path) {
  section.size(path.ops, 3, kMaxCounts);
  for (auto& counted : path.ops) {
    section.number(counted.record);
    section.number(counted.results);
    section.number(counted.calls);
  }
  section.size(path.arguments, 3, kMaxCounts);
  for (auto& counted : path.arguments) {
    section.number(counted.first);
    section.number(counted.second);
    section.number(counted.calls);
  }
  section.number(path.ops_left_out);
  section.size(path.activities, 5, kMaxActivities);
  for (auto& counted : path.activities) {
    section.number(counted.record);
    section.number(counted.times);
    section.number(counted.total_time);
    section.number(counted.shortest_time);
    section.number(counted.longest_time);
  }
  section.number(path.activities_left_out);
  section.size(path.returned, 2, kMaxCounts);
  for (auto& counted : path.returned) {
    section.number(counted.value);
    section.number(counted.calls);
  }
  section.number(path.returned_left_out);
}

// Threads come later in the file: check_paths() checks the paths' thread indexes.
template <typename Section>
void paths(Section& section, auto& trace) {
  for (const auto statistic : kCallTreeStatistics) section.number(trace.statistics.*statistic);
  section.size(trace.paths, 23);
  for (std::size_t i = 0; i < trace.paths.size(); ++i) {
    auto& path = trace.paths[i];
    std::uint64_t kind = static_cast<std::uint64_t>(path.kind) * 2 + (path.tail_call ? 1 : 0);
    section.number(kind);
    if constexpr (Section::kReads) {
      if (kind > static_cast<std::uint64_t>(PathKind::merged) * 2 + 1)
        section.fail("a path is of an unknown kind");
      path.kind = static_cast<PathKind>(kind / 2);
      path.tail_call = kind % 2 != 0;
    }
    section.index(path.parent, i);
    section.index(path.what, kNone - 1);
    section.number(path.line);
    section.number(path.column);
    section.number(path.end_line);
    section.number(path.end_column);
    section.index(path.builtin, trace.python_functions.size());
    section.number(path.call_offset);
    section.number(path.thread);
    section.number(path.thread_count);
    section.index(path.caused_by, trace.paths.size());
    section.number(path.calls);
    section.number(path.total_time);
    section.number(path.shortest_time);
    section.number(path.longest_time);
    counts(section, path);
  }
}

void op_records(auto& section, auto& trace) {
  section.size(trace.op_records, 1);
  for (auto& record : trace.op_records) section.text(record);
}

void thread_head(auto& section, auto& thread) {
  section.number(thread.id);
  section.number(thread.lost);
}

template <typename Section>
void thread_events(Section& section, auto& thread, const Trace& trace) {
  section.size(thread.initial_stack, 3);
  for (auto& frame : thread.initial_stack) {
    section.index(frame.function, trace.functions.size());
    section.number(frame.stack_pointer);
    section.number(frame.return_address);
  }
  section.size(thread.events, 7);
  Event before;
  for (auto& event : thread.events) {
    auto kind = static_cast<std::uint64_t>(event.kind);
    section.number(kind);
    if constexpr (Section::kReads) {
      if (kind > static_cast<std::uint64_t>(EventKind::caller))
        section.fail("an event is of an unknown kind");
      event.kind = static_cast<EventKind>(kind);
    }
    section.definite_index(event.what, named_by(event.kind, trace));
    section.index(event.caller, trace.functions.size());
    section.number(event.line);
    section.difference(event.stack_pointer, before.stack_pointer);
    section.difference(event.return_address, before.return_address);
    section.difference(event.time, before.time);
    before = event;
  }
}

void tables(SectionKind kind, auto& section, auto& trace) {
  switch (kind) {
    case SectionKind::modules:
      return modules(section, trace);
    case SectionKind::functions:
      return functions(section, trace);
    case SectionKind::python_functions:
      return python_functions(section, trace);
    case SectionKind::paths:
      return paths(section, trace);
    case SectionKind::op_records:
      return op_records(section, trace);
    case SectionKind::meta:
    case SectionKind::thread:
      return;
  }
}

TraceMeta read_meta(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::string problem;
  if (std::optional<TraceMeta> meta = read_trace_meta(text, problem)) return *std::move(meta);
  refuse_trace(path, "its section 'meta' is corrupt: it is " + problem);
}

}  // namespace

void refuse_trace(const std::filesystem::path& path, const std::string& reason,
                  const char* remedy) {
  throw Error(ExitStatus::usage, fmt::format("cannot read the trace {}: {}", path.string(), reason),
              remedy);
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

void read_section(SectionKind kind, std::span<const std::byte> bytes, bool head_only,
                  const std::filesystem::path& path, Trace& trace) {
  if (kind == SectionKind::meta) {
    trace.meta = read_meta(bytes, path);
    return;
  }
  SectionReader section(bytes, path, kind);
  if (kind == SectionKind::thread) {
    ThreadRecord& thread = trace.threads.emplace_back();
    thread_head(section, thread);
    if (head_only) return;
    thread_events(section, thread, trace);
  }
  tables(kind, section, trace);
  section.expect_end();
}

void check_paths(const Trace& trace, const std::filesystem::path& path) {
  for (const TracePath& checked : trace.paths) {
    const bool named = checked.what == kNone ? checked.kind != PathKind::python
                                             : checked.what < named_by(checked.kind, trace);
    const auto known = [&](std::uint32_t record) {
      return record == 0 || record < trace.op_records.size();
    };
    const bool valid = std::ranges::all_of(checked.ops, [&](const OpCallCount& counted) {
      return known(counted.record) && known(counted.results);
    });
    const bool done = std::ranges::all_of(
        checked.activities, [&](const ActivityCount& counted) { return known(counted.record); });
    if (!named || !valid || !done || checked.thread >= trace.threads.size())
      refuse_trace(path, "its section 'paths' is corrupt: an index points behind its table");
  }
}

std::string write_section(SectionKind kind, const Trace& trace, std::size_t thread) {
  if (kind == SectionKind::meta) return write_trace_meta(trace.meta);
  SectionWriter section;
  if (kind == SectionKind::thread) {
    thread_head(section, trace.threads[thread]);
    thread_events(section, trace.threads[thread], trace);
  }
  tables(kind, section, trace);
  return section.take();
}

}  // namespace optrace::trace_format

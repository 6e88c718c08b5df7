#include "tracer/trace/trace.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <tuple>

#include <catch2/catch.hpp>
#include <xxhash.h>
#include <zstd.h>

#include "platform/error.h"
#include "platform/files/mapped_file.h"
#include "platform/files/output_file.h"
#include "platform/files/private_folder.h"
#include "platform/files/whole_file.h"
#include "tracer/trace/trace_format.h"

using namespace optrace;

namespace {

Trace example_trace() {
  Trace trace;
  trace.meta.torch.version = "2.6.0+cu124";
  trace.meta.torch.debug = false;
  trace.meta.op = "aten::conv2d";
  trace.meta.op_names = {{"add_Tensor", "aten::add.Tensor"}};
  trace.modules = {{"/lib/libtorch_cpu.so", "00ff", false}, {"/lib/libtorch_python.so", "", true}};
  trace.functions = {{0, 0x1000, "_ZN2at4_ops6conv2d4callE", "", true, false, true, {1}},
                     {1, 0x20, "", "python_variable.cpp", false, true, false, {}},
                     {kNone, 0x7fff00001234, "", "", false, false, false, {}}};
  trace.python_functions = {{"torch.nn.modules.conv.Conv2d.forward", "/torch/nn/conv.py", 553},
                            {"torch.conv2d", "", 0}};
  ThreadRecord thread;
  thread.id = 4711;
  thread.lost = 2;
  thread.initial_stack = {{1, 0x7ffd10, 0x4020}, {kNone, 0x7ffd00, 0x77}};
  thread.events = {
      {EventKind::python_call, 0, kNone, 12, 0x7ffd08, 0, 5},
      {EventKind::function_entry, 0, 1, 0, 0x7ffc00, 0x24, 9},
      {EventKind::function_entry, 2, kNone, 0, 0x7ffb00, ~std::uint64_t{0}, 1'000'000'000'000},
      {EventKind::builtin_return, 1, kNone, 0, 0, 0, 3},
      {EventKind::python_position, 0, kNone, 554, 0, 0, 3},
      {EventKind::device_call, 0, kNone, 0, 0x7ffa00, 17, 4},
      {EventKind::device_activity, 1, kNone, 0, 17, 250, 9},
  };
  trace.threads = {thread, ThreadRecord{4712, {}, {}, 0}};
  trace.op_records = {"{}", R"({"op": "aten::add.Tensor"})", R"({"node": "AddBackward0"})"};
  const TracePath python{.kind = PathKind::python,
                         .what = 0,
                         .line = 12,
                         .column = 5,
                         .end_line = 13,
                         .end_column = 80,
                         .calls = 3};
  TracePath call{.tail_call = true,
                 .parent = 0,
                 .what = 0,
                 .builtin = 1,
                 .call_offset = 0xFFFF'FFFE,
                 .thread = 1,
                 .thread_count = 2,
                 .calls = 4,
                 .total_time = 1'000'000'000'000,
                 .shortest_time = 1,
                 .longest_time = 999};
  call.ops = {{1, 0, 2}, {0, 2, 1}};
  call.arguments = {{~std::uint64_t{0}, 7, 4}};
  call.ops_left_out = 1;
  call.activities = {{1, 3, 900, 200, 400}, {0, 1, 0, 0, 0}};
  call.activities_left_out = 5;
  const TracePath node{.kind = PathKind::node, .parent = 1, .what = 2, .caused_by = 1, .calls = 1};
  trace.paths = {python, call, node};
  std::uint64_t number = 0;
  for (const auto statistic : kCallTreeStatistics) trace.statistics.*statistic = ++number;
  return trace;
}

bool same(const Trace& a, const Trace& b) {
  const auto modules = [](const TraceModule& x, const TraceModule& y) {
    return x.path == y.path && x.build_id == y.build_id && x.debug_info == y.debug_info;
  };
  const auto functions = [](const TraceFunction& x, const TraceFunction& y) {
    return x.module == y.module && x.address == y.address && x.symbol == y.symbol &&
           x.source_file == y.source_file && x.probed == y.probed &&
           x.enters_itself == y.enters_itself && x.jumps_indirectly == y.jumps_indirectly &&
           x.tail_calls == y.tail_calls;
  };
  const auto python = [](const PythonFunction& x, const PythonFunction& y) {
    return x.name == y.name && x.file == y.file && x.first_line == y.first_line;
  };
  const auto frames = [](const InitialFrame& x, const InitialFrame& y) {
    return x.function == y.function && x.stack_pointer == y.stack_pointer &&
           x.return_address == y.return_address;
  };
  const auto events = [](const Event& x, const Event& y) {
    return x.kind == y.kind && x.what == y.what && x.caller == y.caller && x.line == y.line &&
           x.stack_pointer == y.stack_pointer && x.return_address == y.return_address &&
           x.time == y.time;
  };
  const auto threads = [&](const ThreadRecord& x, const ThreadRecord& y) {
    return x.id == y.id && x.lost == y.lost &&
           std::ranges::equal(x.initial_stack, y.initial_stack, frames) &&
           std::ranges::equal(x.events, y.events, events);
  };
  const auto paths = [](const TracePath& x, const TracePath& y) {
    return std::tie(x.kind, x.tail_call, x.parent, x.what, x.line, x.column, x.end_line,
                    x.end_column, x.builtin, x.call_offset, x.thread, x.thread_count, x.caused_by,
                    x.calls, x.total_time, x.shortest_time, x.longest_time, x.ops, x.arguments,
                    x.ops_left_out, x.activities, x.activities_left_out) ==
           std::tie(y.kind, y.tail_call, y.parent, y.what, y.line, y.column, y.end_line,
                    y.end_column, y.builtin, y.call_offset, y.thread, y.thread_count, y.caused_by,
                    y.calls, y.total_time, y.shortest_time, y.longest_time, y.ops, y.arguments,
                    y.ops_left_out, y.activities, y.activities_left_out);
  };
  return a.meta == b.meta && a.op_records == b.op_records && a.statistics == b.statistics &&
         std::ranges::equal(a.paths, b.paths, paths) &&
         std::ranges::equal(a.modules, b.modules, modules) &&
         std::ranges::equal(a.functions, b.functions, functions) &&
         std::ranges::equal(a.python_functions, b.python_functions, python) &&
         std::ranges::equal(a.threads, b.threads, threads);
}

/// Recomputes the checksum, so that the code after its verification is tested.
void seal(std::string& bytes) {
  if (bytes.size() < sizeof(trace_format::FileHeader)) return;
  const std::uint64_t checksum = XXH3_64bits(bytes.data() + sizeof(trace_format::FileHeader),
                                             bytes.size() - sizeof(trace_format::FileHeader));
  std::memcpy(bytes.data() + offsetof(trace_format::FileHeader, checksum), &checksum,
              sizeof checksum);
}

/// The header and the decompressed sections of a trace file.
struct Sections {
  trace_format::FileHeader header{};
  std::vector<std::pair<trace_format::SectionHeader, std::string>> sections;
};

Sections take_apart(const std::string& bytes) {
  Sections result;
  std::memcpy(&result.header, bytes.data(), sizeof result.header);
  std::size_t at = sizeof result.header;
  for (std::uint32_t i = 0; i < result.header.section_count; ++i) {
    trace_format::SectionHeader section{};
    std::memcpy(&section, bytes.data() + at, sizeof section);
    at += sizeof section;
    std::string decoded(section.decoded_size, '\0');
    REQUIRE(ZSTD_decompress(decoded.data(), decoded.size(), bytes.data() + at,
                            section.stored_size) == decoded.size());
    at += section.stored_size;
    result.sections.emplace_back(section, std::move(decoded));
  }
  return result;
}

std::string put_together(Sections parts) {
  std::string bytes(reinterpret_cast<const char*>(&parts.header), sizeof parts.header);
  for (auto& [section, decoded] : parts.sections) {
    std::string stored(ZSTD_compressBound(decoded.size()), '\0');
    stored.resize(ZSTD_compress(stored.data(), stored.size(), decoded.data(), decoded.size(), 1));
    section.stored_size = stored.size();
    section.decoded_size = decoded.size();
    bytes.append(reinterpret_cast<const char*>(&section), sizeof section);
    bytes += stored;
  }
  seal(bytes);
  return bytes;
}

class FlawMaker {
 public:
  /// Flips one to three bits, truncates, or overwrites a run with one byte, at random.
  void spoil(std::string& bytes) {
    if (bytes.empty()) return;
    switch (random_(4)) {
      case 0:
        bytes.resize(random_(bytes.size()));
        break;
      case 1: {
        const std::size_t start = random_(bytes.size());
        const std::size_t length = std::min<std::size_t>(1 + random_(12), bytes.size() - start);
        std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(start), length,
                    random_(2) == 0 ? '\xFF' : '\0');
        break;
      }
      default:
        for (std::size_t n = 1 + random_(3); n > 0; --n) {
          char& byte = bytes[random_(bytes.size())];
          byte = static_cast<char>(byte ^ static_cast<char>(1U << random_(8)));
        }
    }
  }

  std::size_t below(std::size_t limit) { return random_(limit); }

 private:
  struct {
    std::mt19937 engine{2024};
    std::size_t operator()(std::size_t limit) {
      return std::uniform_int_distribution<std::size_t>(0, limit - 1)(engine);
    }
  } random_;
};

std::string message_of(const std::filesystem::path& path) {
  try {
    read_trace(path);
  } catch (const Error& error) {
    CHECK(error.status() == ExitStatus::usage);
    CHECK_FALSE(error.remedy().empty());
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a trace comes back as it was written") {
  const PrivateFolder folder;
  const auto path = folder.path() / "conv2d.trace";
  const Trace trace = example_trace();
  write_trace(trace, path);
  CHECK(same(read_trace(path), trace));
  write_trace(Trace{}, path);
  CHECK(read_trace(path).meta == TraceMeta());
}

TEST_CASE("without events a trace has the rest") {
  const PrivateFolder folder;
  const auto path = folder.path() / "timeline.trace";
  Trace trace = example_trace();
  // More than a zstd block: only the first block is decompressed.
  trace.threads[0].events.resize(200'000, trace.threads[0].events[1]);
  write_trace(trace, path);
  const Trace read = read_trace(path, TraceParts::without_events);
  for (ThreadRecord& thread : trace.threads) {
    thread.events.clear();
    thread.initial_stack.clear();
  }
  CHECK(same(read, trace));
}

TEST_CASE("what is no trace is refused with a reason and a remedy") {
  using Catch::Contains;
  const PrivateFolder folder;
  const auto path = folder.path() / "x";
  write_file(path, "#!/usr/bin/env python\n");
  CHECK_THAT(message_of(path), Contains("not an optrace trace"));
  CHECK_THAT(message_of(folder.path()), Contains("not a regular file"));

  write_trace(example_trace(), path);
  const std::string whole = read_file(path).value();
  std::string bytes = whole;
  bytes[offsetof(trace_format::FileHeader, version)] = 9;
  write_file(path, bytes);
  CHECK_THAT(message_of(path), Contains("format version 9, and this optrace reads version 7"));

  write_file(path, whole.substr(0, whole.size() / 2));
  CHECK_THAT(message_of(path), Contains("truncated or corrupt"));
  write_file(path, whole.substr(0, 12));
  CHECK_THAT(message_of(path), Contains("truncated"));

  SECTION("a section that claims a huge size asks for no memory") {
    bytes = whole;
    const std::uint64_t huge = ~std::uint64_t{0} >> 1;
    std::memcpy(bytes.data() + sizeof(trace_format::FileHeader) +
                    offsetof(trace_format::SectionHeader, decoded_size),
                &huge, sizeof huge);
    seal(bytes);
    write_file(path, bytes);
    CHECK_THAT(message_of(path), Contains("'meta' is too large"));
  }
  SECTION("meta that is nested without end does not exhaust the stack") {
    Sections parts = take_apart(whole);
    parts.sections[0].second = "{\"a\":" + std::string(100'000, '[');
    write_file(path, put_together(parts));
    CHECK_THAT(message_of(path), Contains("nested too deeply"));
  }
  SECTION("an index behind its table is found") {
    Trace trace = example_trace();
    trace.functions[0].tail_calls = {17};
    write_trace(trace, path);
    CHECK_THAT(message_of(path), Contains("'functions' is corrupt: an index points behind"));
  }
}

TEST_CASE("a spoiled trace gives an error or the same trace, never a crash") {
  const PrivateFolder folder;
  const auto path = folder.path() / "spoiled.trace";
  const Trace trace = example_trace();
  write_trace(trace, path);
  const std::string whole = read_file(path).value();
  FlawMaker flaws;
  std::size_t refused = 0;
  constexpr std::size_t kRounds = 2000;
  for (std::size_t round = 0; round < kRounds; ++round) {
    std::string bytes = whole;
    flaws.spoil(bytes);
    write_file(path, bytes);
    try {
      const Trace read = read_trace(path);
      CHECK(same(read, trace));
    } catch (const Error& error) {
      CHECK(error.status() == ExitStatus::usage);
      ++refused;
    }
  }
  CHECK(refused > kRounds / 2);
}

TEST_CASE("a crafted trace with a right checksum gives an error or a trace that is in bounds") {
  const PrivateFolder folder;
  const auto path = folder.path() / "crafted.trace";
  write_trace(example_trace(), path);
  const std::string whole = read_file(path).value();
  const Sections parts = take_apart(whole);
  FlawMaker flaws;
  std::size_t refused = 0;
  constexpr std::size_t kRounds = 3000;
  for (std::size_t round = 0; round < kRounds; ++round) {
    std::string bytes = whole;
    if (round % 3 == 0) {
      flaws.spoil(bytes);
      seal(bytes);
    } else {
      Sections spoiled = parts;
      flaws.spoil(spoiled.sections[flaws.below(spoiled.sections.size())].second);
      bytes = put_together(std::move(spoiled));
    }
    write_file(path, bytes);
    try {
      const Trace trace = read_trace(path);
      for (const TraceFunction& function : trace.functions) {
        CHECK((function.module == kNone || function.module < trace.modules.size()));
        for (const std::uint32_t target : function.tail_calls) {
          CHECK(target < trace.functions.size());
        }
      }
      for (const ThreadRecord& thread : trace.threads) {
        for (const Event& event : thread.events) {
          const std::size_t named = event.kind == EventKind::function_entry ? trace.functions.size()
                                    : event.kind <= EventKind::builtin_return
                                        ? trace.python_functions.size()
                                    : event.kind == EventKind::python_position
                                        ? std::max<std::size_t>(trace.python_functions.size(), 1)
                                        : std::max<std::size_t>(trace.op_records.size(), 1);
          CHECK(event.what < named);
          CHECK((event.caller == kNone || event.caller < trace.functions.size()));
        }
      }
      // A trace that is valid can also be read without its events.
      CHECK(read_trace(path, TraceParts::without_events).threads.size() == trace.threads.size());
      write_trace(trace, path);
    } catch (const Error& error) {
      CHECK(error.status() == ExitStatus::usage);
      ++refused;
      try {
        read_trace(path, TraceParts::without_events);
      } catch (const Error& again) {
        CHECK(again.status() == ExitStatus::usage);
      }
    }
  }
  CHECK(refused > kRounds / 4);
}

#include "tracer/trace/recording.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <thread>

#include <catch2/catch.hpp>
#include <unistd.h>

#include "platform/elf/module_symbols.h"
#include "platform/error.h"
#include "platform/files/private_folder.h"
#include "tests/unit/small_library.h"
#include "tracer/collect/recorded_trace.h"
#include "tracer/probes/probe_plan.h"
#include "tracer/probes/probe_session.h"
#include "tracer/probes/process_map.h"

using namespace optrace;
using namespace optrace::test;

namespace {

// Two functions that are selected by name, and three callers that are not.
constexpr std::string_view kSource = R"(
namespace at::native { __attribute__((noinline)) int kernel(int n) { asm(""); return n + 1; } }
namespace at::_ops {
struct relu { static int call(int n); };
__attribute__((noinline)) int relu::call(int n) { return at::native::kernel(n * 2); }
}
__attribute__((noinline)) int plumbing(int n) { return at::_ops::relu::call(n) * 5; }
static __attribute__((noinline)) int more_plumbing(int n) { return plumbing(n) + 3; }
int start(int n) { return more_plumbing(n) - 1; }
)";

constexpr std::uint64_t kBias = 0x7f0000000000;

/// Writes recordings as the agent does.
class RecordingWriter {
 public:
  RecordingWriter() {
    recording::Header header{};
    std::memcpy(header.magic, recording::kMagic, sizeof header.magic);
    header.version = recording::kVersion;
    header.start_ticks = 1000;
    header.stop_ticks = 3000;
    header.start_nanoseconds = 50;
    header.stop_nanoseconds = 1050;  // Two ticks per nanosecond.
    append(header);
  }

  RecordingWriter& module(const ModuleSymbols& module) {
    recording::Module raw{};
    raw.bias = kBias;
    raw.first = kBias;
    raw.last = kBias + 0x10000;
    raw.build_id_size = static_cast<std::uint32_t>(module.build_id().size() / 2);
    for (std::size_t i = 0; i < raw.build_id_size; ++i) {
      raw.build_id[i] =
          static_cast<std::uint8_t>(std::stoul(module.build_id().substr(2 * i, 2), nullptr, 16));
    }
    const std::string path = module.path().string();
    raw.path_size = static_cast<std::uint32_t>(path.size());
    return section(recording::SectionKind::module, bytes_of(raw) + path);
  }

  RecordingWriter& probes(std::uint32_t first, const ProbePlan& plan) {
    const auto count = static_cast<std::uint32_t>(plan.probes().size());
    const std::string path = plan.path().string();
    return section(recording::SectionKind::probes,
                   bytes_of(recording::ProbeRange{first, count, count,
                                                  static_cast<std::uint32_t>(path.size())}) +
                       path);
  }

  RecordingWriter& python(std::string_view name, std::string_view file, std::uint32_t line,
                          std::string_view table = {}) {
    const recording::PythonFunction raw{.first_line = line,
                                        .name_size = static_cast<std::uint32_t>(name.size()),
                                        .file_size = static_cast<std::uint32_t>(file.size()),
                                        .table_size = static_cast<std::uint32_t>(table.size()),
                                        .minor_version = 10,
                                        .reserved = 0};
    return section(recording::SectionKind::python_function,
                   bytes_of(raw) + std::string(name) + std::string(file) + std::string(table));
  }

  RecordingWriter& thread(std::uint64_t id, const std::vector<recording::InitialFrame>& initial,
                          const std::vector<recording::Event>& events) {
    std::string bytes = bytes_of(recording::Thread{id, 3, initial.size(), events.size()});
    for (const auto& frame : initial) bytes += bytes_of(frame);
    for (const auto& event : events) bytes += bytes_of(event);
    return section(recording::SectionKind::thread, bytes);
  }

  std::string finish() {
    section(recording::SectionKind::end, {});
    return bytes_;
  }

 private:
  template <typename T>
  static std::string bytes_of(const T& value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }
  template <typename T>
  void append(const T& value) {
    bytes_ += bytes_of(value);
  }
  RecordingWriter& section(recording::SectionKind kind, const std::string& content) {
    append(recording::SectionHeader{kind, 0, content.size()});
    bytes_ += content;
    bytes_.resize((bytes_.size() + 7) / 8 * 8, '\0');
    return *this;
  }

  std::string bytes_;
};

/// A library, its functions by symbol, and a cache of its own.
struct Traced {
  explicit Traced(std::string_view source = kSource) {
    ::setenv("OPTRACE_CACHE_DIR", (folder.path() / "cache").c_str(), 1);
    library = build_library(folder.path(), "relu.cpp", source, {"-fno-plt"});
    module.emplace(library);
    for (std::size_t i = 0; i < module->function_count(); ++i) {
      const NativeFunction function = module->function(i);
      functions[std::string(function.symbol)] = function;
    }
  }
  ~Traced() { ::unsetenv("OPTRACE_CACHE_DIR"); }
  Traced(const Traced&) = delete;
  Traced& operator=(const Traced&) = delete;

  /// Returns a run-time return address in a function.
  std::uint64_t inside(const std::string& symbol) const {
    return kBias + functions.at(symbol).address + 6;
  }

  /// Returns the id of a function's probe.
  static std::uint32_t id(const ProbePlan& plan, std::uint64_t address, std::uint32_t first) {
    for (std::uint32_t i = 0; i < plan.probes().size(); ++i) {
      if (plan.probes()[i].address == address) return first + i;
    }
    FAIL("no probe");
    return 0;
  }

  std::filesystem::path scratch(const char* name) const {
    std::filesystem::create_directory(folder.path() / name);
    return folder.path() / name;
  }

  PrivateFolder folder;
  std::filesystem::path library;
  std::optional<ModuleSymbols> module;
  std::map<std::string, NativeFunction> functions;
};

const char* const kKernel = "_ZN2at6native6kernelEi";
const char* const kCall = "_ZN2at4_ops4relu4callEi";
const char* const kPlumbing = "_Z8plumbingi";
const char* const kMorePlumbing = "_ZL13more_plumbingi";
const char* const kStart = "_Z5starti";

/// Returns the first recording of relu: the op, called by the unprobed plumbing(), and its kernel,
/// reached by a tail call.
std::string first_recording(const Traced& traced, const ProbePlan& plan) {
  const std::uint32_t call = Traced::id(plan, traced.functions.at(kCall).address, 10);
  const std::uint32_t kernel = Traced::id(plan, traced.functions.at(kKernel).address, 10);
  return RecordingWriter()
      .module(*traced.module)
      .probes(10, plan)
      .python("F.relu", "/torch/functional.py", 12, "\x04\x01\x04\x02")
      .python("torch.relu", "", 0)
      .thread(99,
              {{0x7ffe00, 0x1111, traced.inside(kMorePlumbing)},
               {0x7fff00, 0x2222, traced.inside(kStart)}},
              {{recording::kPythonCall, 40, 0x7ffd80, 0, 1100},
               {recording::kPythonPosition, 6, 0, 0, 1150},
               {recording::kBuiltinCall, 0, 0x7ffd80, 1, 1200},
               {call, 0, 0x7ffd00, traced.inside(kPlumbing), 1300},
               {kernel, 0, 0x7ffd00, traced.inside(kPlumbing), 1302},
               {kernel, 0, 0x7ffc00, 0x123456, 1304},
               {recording::kBuiltinReturn, 0, 0x7ffd80, 1, 1400},
               {recording::kPythonReturn, 0, 0x7ffd80, 0, 1500}})
      .finish();
}

}  // namespace

TEST_CASE("a recording becomes a trace with names, callers and jumps") {
  const Traced traced;
  ProbeSession session(traced.scratch("scratch"));
  const auto plans = session.initial_plans({traced.library, traced.library});
  REQUIRE(plans.size() == 1);
  const auto plan = ProbePlan::open(plans[0]);
  REQUIRE(plan);
  CHECK(plan->probes().size() == 2);

  const auto raw = traced.folder.path() / "raw";
  write_bytes(raw, first_recording(traced, *plan));
  const Trace trace = read_recorded_trace(session, raw, {{"op", "aten::relu"}});
  CHECK(trace.meta["op"] == "aten::relu");
  CHECK(trace.meta["probes"] == nlohmann::json({{"placed", 2}, {"failed", 0}}));
  REQUIRE(trace.modules.size() == 1);
  CHECK(trace.modules[0].build_id == traced.module->build_id());
  REQUIRE(trace.threads.size() == 1);
  const ThreadRecord& thread = trace.threads[0];
  CHECK(thread.id == 99);
  CHECK(thread.lost == 3);

  const auto name = [&](std::uint32_t function) { return trace.functions.at(function).symbol; };
  REQUIRE(thread.initial_stack.size() == 2);
  CHECK(name(thread.initial_stack[0].function) == kStart);  // Outermost first.
  CHECK(thread.initial_stack[0].return_address == 0x2222);
  CHECK(name(thread.initial_stack[1].function) == kMorePlumbing);
  CHECK(trace.functions.at(thread.initial_stack[1].function).source_file == "relu.cpp");

  REQUIRE(thread.events.size() == 8);
  CHECK(thread.events[0].kind == EventKind::python_call);
  CHECK(thread.events[0].line == 40);
  CHECK(trace.python_functions.at(thread.events[0].what).name == "F.relu");
  CHECK(thread.events[1].kind == EventKind::python_position);
  CHECK(thread.events[1].line == 15);  // From the second pair: 12 + 1 + 2.
  CHECK(thread.events[1].what == thread.events[0].what);
  CHECK(thread.events[2].kind == EventKind::builtin_call);
  CHECK(trace.python_functions.at(thread.events[2].what).name == "torch.relu");
  CHECK(thread.events[6].kind == EventKind::builtin_return);
  CHECK(thread.events[7].kind == EventKind::python_return);
  CHECK(std::ranges::count(trace.paths, 15U, &TracePath::line) == 1);  // The builtin's callee.

  const Event& call = thread.events[3];
  CHECK(call.kind == EventKind::function_entry);
  CHECK(name(call.what) == kCall);
  CHECK(name(call.caller) == kPlumbing);
  CHECK(call.return_address == traced.functions.at(kPlumbing).address + 6);
  CHECK(call.stack_pointer == 0x7ffd00);
  CHECK(call.time == 150);
  CHECK(trace.functions.at(call.what).probed);
  CHECK_FALSE(trace.functions.at(call.caller).probed);
  const Event& kernel = thread.events[4];
  CHECK(name(kernel.what) == kKernel);
  // The jump goes through the GOT, since an exported function may be interposed.
  CHECK(trace.functions.at(call.what).tail_calls == std::vector{kernel.what});
  CHECK(trace.functions.at(kernel.what).tail_calls.empty());
  CHECK(thread.events[5].caller == kNone);  // In no module: code generated at run time.
  CHECK(thread.events[5].return_address == 0x123456);

  const auto path = traced.folder.path() / "relu.trace";
  write_trace(trace, path);
  CHECK(read_trace(path).functions.size() == trace.functions.size());
}

TEST_CASE("functions without a probe that a jump goes through are looked through") {
  const Traced traced(R"(
namespace at::native { __attribute__((noinline)) int kernel(int n) { asm(""); return n + 1; } }
__attribute__((noinline)) int last(int n) { return at::native::kernel(n * 3); }
static __attribute__((noinline)) int first(int n) { return last(n * 5); }
namespace at::_ops {
struct relu { static int call(int n); };
__attribute__((noinline)) int relu::call(int n) { return first(n * 2); }
}
int plumbing(int n) { return at::_ops::relu::call(n) * 5; }
)");
  ProbeSession session(traced.scratch("scratch"));
  const auto plan = ProbePlan::open(session.initial_plans({traced.library}).at(0));
  REQUIRE(plan);
  REQUIRE(plan->probes().size() == 2);
  const std::uint32_t call = Traced::id(*plan, traced.functions.at(kCall).address, 0);
  const std::uint32_t kernel = Traced::id(*plan, traced.functions.at(kKernel).address, 0);
  const auto raw = traced.folder.path() / "raw";
  write_bytes(raw, RecordingWriter()
                       .module(*traced.module)
                       .probes(0, *plan)
                       .thread(99, {},
                               {{call, 0, 0x7ffd00, traced.inside(kPlumbing), 1300},
                                {kernel, 0, 0x7ffd00, traced.inside(kPlumbing), 1302}})
                       .finish());
  const Trace trace = read_recorded_trace(session, raw, {});
  REQUIRE(trace.threads.at(0).events.size() == 2);
  const auto& events = trace.threads[0].events;
  CHECK(trace.functions.at(events[0].what).tail_calls == std::vector{events[1].what});
  CHECK(trace.functions.at(events[1].what).tail_calls.empty());
}

namespace {

/// Waits until a new file's results can be cached. Two changes in quick succession may leave the
/// same timestamps, so nothing is cached for a file that changed in the last two seconds.
void wait_until_settled() {
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
}

}  // namespace

TEST_CASE("what is probed does not depend on what was recorded before") {
  const Traced traced;
  wait_until_settled();
  const auto raw = traced.folder.path() / "raw";
  std::vector<std::filesystem::path> first;
  {
    ProbeSession session(traced.scratch("first"));
    first = session.initial_plans({traced.library});
    REQUIRE(first.size() == 1);
    write_bytes(raw, first_recording(traced, *ProbePlan::open(first[0])));
    read_recorded_trace(session, raw, {});
  }
  CHECK(ProbeSession(traced.scratch("second")).initial_plans({traced.library}) == first);
}

TEST_CASE("a caller without a probe is an event of its own") {
  const Traced traced;
  ProbeSession session(traced.scratch("scratch"));
  const auto plan = ProbePlan::open(session.initial_plans({traced.library}).at(0));
  const auto raw = traced.folder.path() / "raw";
  const std::uint64_t inside = traced.inside(kPlumbing);
  const auto id = recording::kCaller | static_cast<std::uint32_t>(inside >> 32);
  const std::uint32_t call = Traced::id(*plan, traced.functions.at(kCall).address, 0);
  write_bytes(raw, RecordingWriter()
                       .module(*traced.module)
                       .probes(0, *plan)
                       .thread(99, {},
                               {{id, static_cast<std::uint32_t>(inside), 0x7ffe00,
                                 traced.inside(kMorePlumbing), 1200},
                                {recording::kCaller, 0x1234, 0x7ffe00, 0x5678, 1250},
                                {call, 0, 0x7ffd00, inside, 1300}})
                       .finish());
  const Trace trace = read_recorded_trace(session, raw, {});
  const auto& events = trace.threads.at(0).events;
  REQUIRE(events.size() == 2);  // A caller in no module is dropped.
  CHECK(events[0].kind == EventKind::caller);
  CHECK(trace.functions.at(events[0].what).symbol == kPlumbing);
  CHECK(trace.functions.at(events[0].caller).symbol == kMorePlumbing);
  CHECK(events[0].stack_pointer == 0x7ffe00);
  CHECK(events[1].caller == events[0].what);
  REQUIRE(trace.paths.size() == 2);
  CHECK(trace.paths[1].parent == 0);
}

namespace {

std::size_t probes_in(const std::vector<std::filesystem::path>& plans) {
  std::size_t count = 0;
  for (const auto& path : plans) count += ProbePlan::open(path).value().probes().size();
  return count;
}

std::set<std::filesystem::path> files_below(const std::filesystem::path& folder) {
  std::set<std::filesystem::path> files;
  std::error_code error;  // The folder may be missing.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error))
    files.insert(entry.path());
  return files;
}

}  // namespace

TEST_CASE("what is kept goes by a library's bytes and owner, not by its build-id") {
  // Internal linkage: a stripped copy has no symbol for the function.
  const Traced traced(
      "namespace at::native { __attribute__((noinline)) static int hidden(int x) "
      "{ asm(\"\"); return x + 1; }\n"
      "int relu(int x) { return hidden(x) + 1; } }");
  const auto stripped = stripped_copy(traced.library);
  REQUIRE(ModuleSymbols(stripped).build_id() == traced.module->build_id());
  const auto plans_of = [&](const std::filesystem::path& library, const char* scratch) {
    return ProbeSession(traced.scratch(scratch)).initial_plans({library});
  };
  const auto cache = traced.folder.path() / "cache";
  // A file that was just written may change unnoticed, so nothing is cached.
  const std::size_t whole = probes_in(plans_of(traced.library, "new"));
  CHECK(files_below(cache).size() <= 1);
  wait_until_settled();

  const std::size_t few = probes_in(plans_of(stripped, "first"));
  CHECK(few < whole);
  CHECK(probes_in(plans_of(traced.library, "second")) == whole);
  CHECK(probes_in(plans_of(stripped, "third")) == few);
  CHECK(plans_of(traced.library, "fourth").at(0).parent_path() == cache / "plans");

  // The same bytes are recognised in a file with another path and other timestamps.
  const auto copy = traced.folder.path() / "copy.so";
  std::filesystem::copy(traced.library, copy);
  wait_until_settled();
  CHECK(plans_of(copy, "fifth") == plans_of(traced.library, "sixth"));

  if (::geteuid() != 0) {
    WARN("skipped: only root can give files to another user");
    return;
  }
  const auto before = files_below(cache);
  REQUIRE(::chown(copy.c_str(), 65534, 65534) == 0);
  wait_until_settled();
  const auto foreign = plans_of(copy, "foreign");
  CHECK(foreign.at(0).parent_path() == traced.folder.path() / "foreign");
  CHECK(probes_in(foreign) == whole);
  CHECK(files_below(cache) == before);
  // The same library, as for a process in another mount namespace.
  const auto root = std::filesystem::path("/proc") / std::to_string(::getpid()) / "root";
  ProbeSession session(traced.scratch("inside"));
  session.modules().look_below(root);
  const auto inside = session.initial_plans({traced.library});
  CHECK(inside.at(0).parent_path() == traced.folder.path() / "inside");
}

TEST_CASE("a kept plan that was spoiled is made again") {
  const Traced traced;
  wait_until_settled();
  const auto plan_path = [&] {
    return ProbeSession(traced.scratch("scratch")).initial_plans({traced.library}).at(0);
  };
  const auto path = plan_path();
  const std::string whole = read_bytes(path);
  CHECK(path.string().find("cache") != std::string::npos);
  write_bytes(path, whole.substr(0, whole.size() - 5));
  CHECK(plan_path() == path);
  CHECK(read_bytes(path) == whole);
}

TEST_CASE("without a cache plans go to the scratch folder") {
  const Traced traced;
  write_bytes(traced.folder.path() / "file", "no folder");
  ::setenv("OPTRACE_CACHE_DIR", (traced.folder.path() / "file").c_str(), 1);
  ProbeSession session(traced.scratch("scratch"));
  const auto plans = session.initial_plans({traced.library});
  REQUIRE(plans.size() == 1);
  CHECK(plans[0].parent_path() == traced.folder.path() / "scratch");
}

TEST_CASE("a recording of a library that was replaced has no names for it") {
  const Traced traced;
  ProbeSession session(traced.scratch("scratch"));
  const auto plan = ProbePlan::open(session.initial_plans({traced.library}).at(0));
  const auto raw = traced.folder.path() / "raw";
  write_bytes(raw, first_recording(traced, *plan));
  build_library(traced.folder.path(), "relu.cpp", "int other() { return 2; }");
  ProbeSession later(traced.scratch("later"));
  const Recording recording(raw);
  ProcessMap process(recording.modules(), later.modules());
  CHECK(process.caller(traced.inside(kPlumbing)) == nullptr);
  REQUIRE(later.warnings().size() == 1);
  CHECK_THAT(later.warnings()[0], Catch::Contains("was replaced"));
}

TEST_CASE("a spoiled recording gives an error or a trace, never a crash") {
  const Traced traced;
  ProbeSession session(traced.scratch("scratch"));
  const auto plan = ProbePlan::open(session.initial_plans({traced.library}).at(0));
  const std::string whole = first_recording(traced, *plan);
  const auto raw = traced.folder.path() / "raw";
  CHECK_THROWS_AS(read_recorded_trace(session, traced.folder.path() / "absent", {}), Error);
  std::mt19937 engine(11);
  const auto below = [&](std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(engine);
  };
  std::size_t refused = 0;
  constexpr std::size_t kRounds = 2000;
  for (std::size_t round = 0; round < kRounds; ++round) {
    std::string bytes = whole;
    for (std::size_t flaws = 1 + below(3); flaws > 0; --flaws) {
      const std::size_t at = below(bytes.size());
      const char values[] = {'\0', '\xFF', '\x01', static_cast<char>(below(256))};
      bytes[at] = values[below(sizeof values)];
    }
    if (round % 5 == 0) bytes.resize(below(bytes.size()) + 1);
    write_bytes(raw, bytes);
    try {
      const Trace trace = read_recorded_trace(session, raw, {});
      CHECK(trace.threads.size() <= 1);
    } catch (const Error& error) {
      CHECK(error.status() == ExitStatus::failed);
      CHECK_FALSE(error.remedy().empty());
      ++refused;
    }
  }
  CHECK(refused > kRounds / 4);
  CHECK(refused < kRounds);
}

TEST_CASE("only a builtin's own line shows that positions can't be read") {
  CHECK(lacks_position({recording::kBuiltinCall, 40, 0x7ffd80, 1, 1100}));
  CHECK_FALSE(lacks_position({recording::kBuiltinCall, 0, 0x7ffd80, 1, 1100}));
  // A function that was live when recording began always has its caller's line.
  CHECK_FALSE(lacks_position({recording::kPythonCall, 40, 0x7ffd80, 1, 1100}));
}

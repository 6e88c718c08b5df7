// Lines that an index knows only approximately, in every output that shows lines.

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sqlite3.h>

#include "indexer/store/op_facts.h"
#include "indexer/store/source_link.h"
#include "lookup/explain/explain_output.h"
#include "lookup/locate/locate.h"
#include "lookup/locate/locate_output.h"
#include "present/line_text.h"
#include "pytorch/symbols/symbol_key.h"
#include "report/check/check.h"
#include "report/check/formats/check_output.h"
#include "report/formats/writers.h"
#include "report/model/frame_name.h"
#include "tests/unit/index_file.h"
#include "tests/unit/report/written_report.h"
#include "tests/unit/trace_builder.h"

using Catch::Contains;
using Json = nlohmann::json;
using namespace optrace;
using namespace optrace::test;

namespace {

constexpr const char* kRollCall = "_ZN2at4_ops4roll4callERKNS_6TensorE";
constexpr const char* kRollWrapper = "_ZN2at12_GLOBAL__N_112_GLOBAL__N_117wrapper_CPU__rollEv";
constexpr const char* kRollKernel = "_ZN2at6native4rollERKNS_6TensorE";
constexpr const char* kRollHelper = "_ZN2at6native6helperERKNS_6TensorE";
constexpr const char* kRollNew = "_ZN2at6native3newERKNS_6TensorE";
constexpr const char* kRollHandle = "_ZNK3c1019TypedOperatorHandleIFN2at6TensorERKS2_EE4callES4_";

const std::string kCommit(40, 'a');

// Exact lines in generated code, and in Roll.cpp an exact, three approximate and an unknown one.
IndexContents contents(const std::string& version, const std::string& made_from) {
  const auto key = [](const char* symbol) { return canonical_symbol(symbol); };
  IndexContents index;
  index.meta = {{"torch_version", version}, {"made_from", made_from}};
  index.functions = {
      {key(kRollCall), "build/aten/src/ATen/Operators_0.cpp", 2000, {{key(kRollHandle), 2003}}},
      {key(kRollWrapper), "build/aten/src/ATen/RegisterCPU.cpp", 3000, {{key(kRollKernel), 3002}}},
      {key(kRollKernel),
       "aten/src/ATen/native/Roll.cpp",
       40,
       {{key(kRollHelper), 44, CallKind::call, LineInterval{42, 50}}, {key(kRollNew), 45}},
       DefinitionKind::function,
       LineInterval{38, 41}},
      {key(kRollHelper),
       "aten/src/ATen/native/Roll.cpp",
       20,
       {},
       DefinitionKind::function,
       LineInterval{}},
      {key(kRollNew), "aten/src/ATen/native/Roll.cpp", 0, {}},
  };
  OpFacts roll;
  roll.schema = "roll(Tensor self) -> Tensor";
  roll.kernels = {{"CPU", "at::native::roll", false, false}};
  index.ops = {{"aten::roll", "roll", 100, to_json(roll)}};
  index.registrations = {{RegistrationKind::kernel, "aten::roll", "CPU", key(kRollWrapper),
                          "aten/src/ATen/native/Library.cpp", 7, LineInterval{5, 9}}};
  return index;
}

struct SmallIndex : IndexFile {
  explicit SmallIndex(const std::string& version = "2.6.0", const std::string& made_from = "wheel")
      : IndexFile(contents(version, made_from)) {}
};

// A program calls torch.roll, whose kernel calls two functions.
Trace roll() {
  TraceBuilder t;
  t.trace.meta.torch.version = "2.6.0+cpu";
  t.trace.meta.torch.git_version = kCommit;
  t.trace.meta.device = "cpu";
  t.trace.meta.op_names = {{"roll", "aten::roll"}};
  t.trace.modules = {{"/x/libtorch_cpu.so", ""}};
  const auto program = t.python("__main__.<module>");
  t.trace.python_functions[program].file = "/home/u/train.py";
  t.trace.python_functions[program].first_line = 1;
  const auto add = [&t](std::uint32_t parent, PathKind kind, std::uint32_t what,
                        std::uint32_t line = 0) {
    t.trace.paths.push_back(
        {.kind = kind, .parent = parent, .what = what, .line = line, .calls = 1});
    return static_cast<std::uint32_t>(t.trace.paths.size() - 1);
  };
  const auto main = add(kNone, PathKind::python, program);
  const auto call = add(main, PathKind::function, t.function(kRollCall), 12);
  const auto wrapper = add(call, PathKind::function, t.function(kRollWrapper));
  const auto kernel = add(wrapper, PathKind::function, t.function(kRollKernel));
  add(kernel, PathKind::function, t.function(kRollHelper));
  add(kernel, PathKind::function, t.function(kRollNew));
  return std::move(t.trace);
}

Report report_with(const IndexFile& index) {
  const Index open = index.open();
  return merge(roll(), &open, {});
}

// Returns the source of each frame, outermost first.
std::vector<FrameSource> sources_of(const Report& report) {
  std::vector<FrameSource> sources;
  const Frame* frame = &report.roots.at(0);
  for (; frame->children.size() == 1; frame = &frame->children[0])
    sources.push_back(frame->source.value_or(FrameSource()));
  sources.push_back(frame->source.value_or(FrameSource()));
  for (const Frame& child : frame->children)
    sources.push_back(child.source.value_or(FrameSource()));
  return sources;
}

// Returns the columns of the first row of a query, separated by `|`.
std::string first_row(std::string database, const char* sql) {
  sqlite3* opened = nullptr;
  REQUIRE(sqlite3_open(":memory:", &opened) == SQLITE_OK);
  auto* const bytes = reinterpret_cast<unsigned char*>(database.data());
  const auto size = static_cast<sqlite3_int64>(database.size());
  REQUIRE(sqlite3_deserialize(opened, "main", bytes, size, size, SQLITE_DESERIALIZE_READONLY) ==
          SQLITE_OK);
  std::string row;
  const auto take = [](void* into, int count, char** values, char** /*names*/) {
    for (int i = 0; i < count; ++i)
      *static_cast<std::string*>(into) += std::string(values[i] == nullptr ? "" : values[i]) + "|";
    return 1;  // No further row.
  };
  sqlite3_exec(opened, sql, take, &row, nullptr);
  sqlite3_close(opened);
  return row;
}

struct Explained {
  Explained() : index(file.open()), indexes(index) {
    source.version = "2.6.0";
    source.match = match_of(index, true);
    it = explain(indexes, find_spelled_op(indexes, "roll"), "roll", {"cpu"});
  }
  SmallIndex file;
  Index index;
  SourceIndexes indexes;
  IndexedSource source;
  Explanation it;
};

}  // namespace

TEST_CASE("a line of text is exact, approximate or unknown", "[lines]") {
  CHECK(line_text(3, true) == "3");
  CHECK(line_text(3, false) == "~3");
  CHECK(place_text("a.cpp", 3, true) == "a.cpp:3");
  CHECK(place_text("a.cpp", 3, false) == "a.cpp:~3");
  CHECK(place_text("a.cpp", 0, false) == "a.cpp");
  CHECK(place_text(FrameSource{}).empty());
}

TEST_CASE("an index of a wheel is of its torch, and not all of its lines are exact", "[lines]") {
  const SmallIndex wheel;
  const SmallIndex source("2.6.0", "");
  const IndexMatch of_wheel = match_of(wheel.open(), true);
  CHECK((of_wheel.of_torch && of_wheel.from_wheel && !of_wheel.exact));
  // A checkout of which some files differ from the wheel's.
  const IndexMatch of_source = match_of(source.open(), true);
  CHECK((of_source.of_torch && !of_source.from_wheel && !of_source.exact));
  CHECK_FALSE(match_of(wheel.open(), false).is_exact({}));
  CHECK(of_wheel.is_exact({}));
  CHECK_FALSE(of_wheel.is_exact(LineInterval{}));
}

TEST_CASE("each line of a report has its own state", "[lines]") {
  const SmallIndex index;
  const Report report = report_with(index);
  CHECK(report.source_of_torch);
  CHECK(report.source_from_wheel);
  CHECK_FALSE(report.source_exact);
  const std::vector<FrameSource> sources = sources_of(report);
  REQUIRE(sources.size() == 6);
  const auto& [main, call, wrapper] = std::tie(sources[0], sources[1], sources[2]);
  CHECK((main.line == 1 && !main.approximate));
  CHECK((call.line == 2000 && !call.approximate));
  CHECK((call.call_line == 12U && !call.call_approximate));
  CHECK((wrapper.call_line == 2003U && !wrapper.call_approximate));
  const FrameSource& kernel = sources[3];
  CHECK(kernel.line == 40);
  CHECK(kernel.approximate == LineInterval{38, 41});
  CHECK((kernel.call_line == 3002U && !kernel.call_approximate));
  const FrameSource& helper = sources[4];
  CHECK(helper.approximate == LineInterval{});
  CHECK(helper.call_line == 44U);
  CHECK(helper.call_approximate == LineInterval{42, 50});
  const FrameSource& added = sources[5];
  CHECK(added.file == "aten/src/ATen/native/Roll.cpp");
  CHECK((added.line == 0 && added.call_line == 45U && !added.call_approximate));
  CHECK(added.url ==
        "https://github.com/pytorch/pytorch/blob/" + kCommit + "/aten/src/ATen/native/Roll.cpp");
}

TEST_CASE("one of several calls is exact only if all are", "[lines]") {
  IndexContents several = contents("2.6.0", "wheel");
  several.functions[2].calls.insert(several.functions[2].calls.begin(),
                                    {canonical_symbol(kRollHelper), 43});
  const Report report = report_with(IndexFile(std::move(several)));
  const FrameSource helper = sources_of(report)[4];
  CHECK(helper.call_line == 43U);
  CHECK(helper.call_approximate == LineInterval{});
}

TEST_CASE("all lines of an index of another torch are approximate, without bounds", "[lines]") {
  const SmallIndex other("2.5.1");
  const Report report = report_with(other);
  CHECK_FALSE(report.source_of_torch);
  for (const FrameSource& source : sources_of(report)) {
    if (source.file == "/home/u/train.py") continue;
    if (source.line != 0) CHECK(source.approximate == LineInterval{});
    if (source.call_line != 12U) CHECK(source.call_approximate == LineInterval{});
  }
  CHECK_THAT(to_text(report, {}),
             Contains("Operators_0.cpp:~2000") && Contains("not the traced version"));
}

TEST_CASE("text marks approximate lines, and shows no unknown one", "[lines]") {
  const SmallIndex index;
  const Report report = report_with(index);
  const std::string text = to_text(report, {});
  CHECK_THAT(text, Contains("line numbers: PyTorch 2.6.0, from the wheel; ~ marks approximate"));
  CHECK_THAT(text, Contains("train.py:1") && Contains("Operators_0.cpp:2000") &&
                       Contains("called at :12") && Contains("called at :3002") &&
                       Contains("Roll.cpp:~40") && Contains("Roll.cpp:~20") &&
                       Contains("called at :~44") && !Contains("Roll.cpp:0"));
  CHECK_THAT(to_dot(report), Contains("Roll.cpp:~40") && !Contains("Roll.cpp:0"));
  const SmallIndex checkout("2.6.0", "");
  CHECK_THAT(to_text(report_with(checkout), {}),
             Contains("the commit that was traced; ~ marks approximate ones"));
}

TEST_CASE("the JSON has the state of each line, and it is read again", "[lines]") {
  const SmallIndex index;
  const Report report = report_with(index);
  const std::string text = to_json(report);
  const Json written = Json::parse(text);
  CHECK(written["source"] ==
        Json({{"version", "2.6.0"}, {"made_from", "wheel"}, {"of_torch", true}, {"exact", false}}));
  const Json& call = written["roots"][0]["children"][0];
  CHECK((call["source"]["exact"] == true && call["source"]["call_exact"] == true));
  CHECK_FALSE(call["source"].contains("interval"));
  const Json& kernel = call["children"][0]["children"][0];
  CHECK(kernel["source"]["exact"] == false);
  CHECK(kernel["source"]["interval"] == Json({38, 41}));
  const Json& helper = kernel["children"][0]["source"];
  CHECK(helper["exact"] == false);
  CHECK_FALSE(helper.contains("interval"));
  CHECK(helper["call_exact"] == false);
  CHECK(helper["call_interval"] == Json({42, 50}));
  const Json& added = kernel["children"][1]["source"];
  CHECK((added["line"].is_null() && added["exact"].is_null() && added["call_exact"] == true));

  Report again;
  static_cast<WrittenReport&>(again) = parse_report(text);
  CHECK((again.source_of_torch && again.source_from_wheel && !again.source_exact));
  CHECK(sources_of(again) == sources_of(report));
  CHECK(to_json(again) == text);
}

TEST_CASE("a report without states has one for all lines of native frames", "[lines]") {
  const auto sources_with = [](bool exact) {
    Json old = Json::parse(R"({"schema": "optrace.report/1", "source": {"version": "2.6.0"},
      "roots": [{"layer": "python", "name": "f", "source": {"file": "a.py", "line": 1},
        "children": [{"layer": "kernel", "name": "g",
          "source": {"file": "g.cpp", "line": 3, "call_line": 2},
          "children": [{"layer": "library", "name": "sgemm_", "children": [],
            "source": {"call_line": 5}}]}]}]})");
    old["source"]["exact"] = exact;
    Report read;
    static_cast<WrittenReport&>(read) = parse_report(old.dump());
    CHECK(read.source_of_torch == exact);
    return sources_of(read);
  };
  for (const FrameSource& source : sources_with(true))
    CHECK((!source.approximate && !source.call_approximate));
  const std::vector<FrameSource> other = sources_with(false);
  CHECK_FALSE(other[0].approximate);
  CHECK(other[1].approximate == LineInterval{});
  CHECK_FALSE(other[1].call_approximate);  // A line of Python.
  CHECK_FALSE(other[2].approximate);       // It has no line.
  CHECK(other[2].call_approximate == LineInterval{});
}

TEST_CASE("the database has the state of each line", "[lines]") {
  const SmallIndex index;
  const Report report = report_with(index);
  const std::string database = written([&](OutputSink& sink) { to_sqlite(report, {}, sink); });
  const auto lines_of = [&](const std::string& name) {
    return first_row(database, ("SELECT line, line_exact, line_first, line_last, call_line, "
                                "call_line_exact, call_line_first, call_line_last FROM frames "
                                "WHERE name = '" +
                                name + "'")
                                   .c_str());
  };
  CHECK(lines_of("at::_ops::roll::call") == "2000|1|||12|1|||");
  CHECK(lines_of("at::native::roll") == "40|0|38|41|3002|1|||");
  CHECK(lines_of("at::native::helper") == "20|0|||44|0|42|50|");
  CHECK(lines_of("at::native::new") == "||||45|1|||");
  const auto property = [&](const std::string& key) {
    return first_row(database, ("SELECT value FROM report WHERE key = '" + key + "'").c_str());
  };
  CHECK(property("source_exact") == "0|");
  CHECK(property("source_of_torch") == "1|");
  CHECK(property("source_made_from") == "wheel|");
}

TEST_CASE("rules show the states of lines", "[lines]") {
  const SmallIndex index;
  const Report report = report_with(index);
  const std::string rule = "never calls at::native::helper";
  const auto results = check(report, KnownNames({}, nullptr), {parse_rule(rule)}, {});
  REQUIRE(results.size() == 1);
  REQUIRE(results[0].path.size() > 2);
  const CheckStep& kernel = results[0].path[results[0].path.size() - 2];
  CHECK((kernel.line == 44 && !kernel.exact));
  CHECK_THAT(to_text(results, {}), Contains("Roll.cpp:~44"));
  const Json path = Json::parse(to_json(report, results))["rules"][0]["path"];
  CHECK(path[path.size() - 2]["exact"] == false);
  CHECK(path[0]["exact"] == true);
}

TEST_CASE("locate has the state of each place", "[lines]") {
  const SmallIndex file;
  const Index index = file.open();
  IndexedSource source;
  source.version = "2.6.0";
  source.match = match_of(index, true);
  Locator locator(index);
  const LocateResult kernel = locator.locate("at::native::roll", {});
  CHECK_THAT(to_text(kernel, source, {}), Contains("Roll.cpp:~40"));
  const Json answer = Json::parse(to_json(kernel, source));
  CHECK(answer["source"] ==
        Json({{"version", "2.6.0"}, {"made_from", "wheel"}, {"of_torch", true}, {"exact", false}}));
  CHECK(answer["answers"][0]["source"]["exact"] == false);
  CHECK(answer["answers"][0]["source"]["interval"] == Json({38, 41}));
  const LocateResult wrapper = locator.locate("at::_ops::roll::call", {});
  CHECK_THAT(to_text(wrapper, source, {}), Contains("Operators_0.cpp:2000"));
  CHECK(Json::parse(to_json(wrapper, source))["answers"][0]["source"]["exact"] == true);
  const LocateResult added = locator.locate("at::native::new", {});
  CHECK_THAT(to_text(added, source, {}), Contains("Roll.cpp\n"));
  CHECK(Json::parse(to_json(added, source))["answers"][0]["source"]["line"].is_null());
  // Of another torch, no line is exact, and bounds are of no use.
  source.match = match_of(index, false);
  CHECK_THAT(to_text(wrapper, source, {}), Contains("Operators_0.cpp:~2000"));
  CHECK_FALSE(Json::parse(to_json(kernel, source))["answers"][0]["source"].contains("interval"));
}

TEST_CASE("explain has the state of each place", "[lines]") {
  const Explained explained;
  const std::string text = to_text(explained.it, explained.source, {.all = true, .style = {}});
  CHECK_THAT(text, Contains("from the wheel of the installed torch") && Contains("Roll.cpp:~40") &&
                       Contains("RegisterCPU.cpp:3000") && Contains("Library.cpp:~7"));
  const Json it = Json::parse(to_json(explained.it, explained.source));
  CHECK(it["source"]["made_from"] == "wheel");
  CHECK(it["source"]["of_torch"] == true);
  CHECK(it["source"]["exact"] == false);
  CHECK(it["yaml"]["exact"] == true);
  const Json* cpu = nullptr;
  for (const Json& key : it["dispatch"])
    if (key["key"] == "CPU") cpu = &key;
  REQUIRE(cpu != nullptr);
  CHECK((*cpu)["registered"]["exact"] == false);
  CHECK((*cpu)["registered"]["interval"] == Json({5, 9}));
}

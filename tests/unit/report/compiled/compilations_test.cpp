#include "report/compiled/compilations.h"

#include <catch2/catch.hpp>

#include "report/json/read_compilation_json.h"
#include "report/json/report_parts_json.h"
#include "tracer/trace/trace_meta_json.h"

using namespace optrace;
using Json = nlohmann::json;

namespace {

/// Returns the value as it is after it was written to a file and read again: its counts are
/// unsigned.
Json as_read(const Json& value) {
  return Json::parse(value.dump());
}

/// Returns the compilations of a trace with this metadata as a report has them.
Json described(const Json& json) {
  const TraceMeta meta = trace_meta_of(json);
  return optrace::to_json(describe_compilations(meta, GeneratedCode(meta)));
}

/// Returns the compilations that a report has as this JSON.
std::vector<Compilation> read(const Json& list) {
  std::vector<Compilation> compilations;
  for (const Json& one : as_read(list)) compilations.push_back(compilation_of(one));
  return compilations;
}

}  // namespace

TEST_CASE("compilations are described by known keys", "[compilations]") {
  const Json meta = {{"torch_folder", "/site/torch"},
                     {"compilations",
                      {{{"id", "0/1"},
                        {"function", "f"},
                        {"file", "/site/torch/nn/functional.py"},
                        {"line", 7},
                        {"time", 50},
                        {"cache", "miss"},
                        {"backward", {{"time", 20}, {"other", 1}}},
                        {"recompile_reasons", {"0/0: size", 3}},
                        {"breaks", {{{"file", "/x.py"}, {"line", 8}, {"reason", "print"}}, "?"}},
                        {"unknown", 1}},
                       "?"}}};
  CHECK(described(as_read(meta)) ==
        Json::array({{{"id", "0/1"},
                      {"function", "f"},
                      {"file", "torch/nn/functional.py"},
                      {"line", 7},
                      {"time", 50},
                      {"cache", "miss"},
                      {"backward", {{"time", 20}}},
                      {"recompile_reasons", {"0/0: size"}},
                      {"breaks", {{{"file", "/x.py"}, {"line", 8}, {"reason", "print"}}}}}}));
}

TEST_CASE("a compilation has the kernels of its generated files", "[compilations]") {
  const Json list = described(Json::parse(R"({
      "compilations": [{"id": "0/0", "generated": ["/g/c.py", "/g/other.py", 3],
                        "backward": {"generated": ["/g/d.py", 4]}}, {"id": "1/0"}],
      "generated_code": [{"file": "/g/d.py", "kernels": [{"name": "triton_0", "source": {}}]},
                         {"file": "/g/c.py", "kernels": [
          {"name": "cpp_fused_1", "library": "/g/1.so", "source": {"file": "/g/1.cpp", "line": 3}},
          {"name": "cpp_fused_0", "library": "/g/0.so", "origins": [
              {"op": "aten::relu", "node": "relu", "file": "/x.py", "line": 3, "module": "m"},
              {"op": "aten::add.Tensor", "line": 4}, {"node": "unknown"}, 7]}]}]})"));
  CHECK(list[0]["kernels"] == Json::parse(R"([
      {"name": "cpp_fused_0", "file": "/g/c.py", "origins": [
          {"op": "aten::relu", "node": "relu", "file": "/x.py", "line": 3, "module": "m"},
          {"op": "aten::add.Tensor"}]},
      {"name": "cpp_fused_1", "file": "/g/c.py", "origins": [],
       "source": {"file": "/g/1.cpp", "line": 3}}])"));
  CHECK(list[0]["backward"]["kernels"] ==
        Json::parse(R"([{"name": "triton_0", "file": "/g/d.py", "origins": []}])"));
  CHECK_FALSE(list[1].contains("kernels"));
}

TEST_CASE("reasons of breaks and recompilations are found", "[compilations]") {
  const std::vector<Compilation> list = read(
      {{{"function", "f"}, {"breaks", {{{"file", "/x.py"}, {"line", 8}, {"reason", "print"}}}}},
       {{"function", "f"}, {"recompile_reasons", {"0/0: size: 3"}}},
       {{"function", "f"}, {"recompile_reasons", {"0/1: stride", "0/0: size"}}},
       {{"function", "f"}, {"recompile_reasons", Json::array()}}});
  CHECK(graph_break_reason(list, "/x.py", 8) == "print");
  CHECK(graph_break_reason(list, "/x.py", 9).empty());
  CHECK(graph_break_reason(list, "/y.py", 8).empty());
  CHECK(failed_guard(list, "f") == "stride");
  CHECK(failed_guard(list, "g").empty());
}

TEST_CASE("a function that PyTorch gave up has a reason", "[compilations]") {
  const Json breaks = {{{"file", "/x.py"}, {"line", 8}, {"reason", "print"}}};
  const std::vector<Compilation> list =
      read({{{"file", "/x.py"}, {"line", 5}, {"breaks", breaks}},
            {{"file", "/x.py"}, {"line", 2}},
            {{"file", "/x.py"}, {"line", 2}, {"recompile_reasons", {"0/0: size"}}},
            {{"file", "/y.py"}, {"line", 2}, {"recompile_reasons", {"0/0: size"}}},
            {{"file", "/x.py"}, {"line", 2}, {"recompile_reasons", {"0/1: size"}}}});
  CHECK(reason_not_compiled(list, "/x.py", 5) == "line 8: print");
  CHECK(reason_not_compiled(list, "/x.py", 2) ==
        "it was compiled 3 times before, as guards failed");
  Json refused = Json::array({{{"file", "/x.py"}, {"line", 2}, {"recompile_limit", true}}});
  CHECK(reason_not_compiled(read(refused), "/x.py", 2) ==
        "PyTorch reached its limit of recompilations, after compiling it 1 time");
  refused[0]["recompile_limit"] = 3;
  CHECK(reason_not_compiled(read(refused), "/x.py", 2).empty());
  CHECK(reason_not_compiled(list, "/y.py", 2).empty());
  CHECK(reason_not_compiled(list, "/z.py", 2).empty());
  CHECK(reason_not_compiled({}, "/x.py", 5).empty());
}

TEST_CASE("compilations are found by the line that began them", "[compilations]") {
  const std::vector<Compilation> list =
      read({{{"id", "0/0"}, {"called_from", {{"file", "/x.py"}, {"line", 8}}}},
            {{"id", "1/0"}, {"called_from", {{"file", "/x.py"}, {"line", 9}}}},
            {{"id", "0/1"},
             {"function", "f"},
             {"file", "/x.py"},
             {"line", 3},
             {"called_from", {{"file", "/x.py"}, {"line", 8}}},
             {"generated", {"/g/a.py", 3}},
             {"backward",
              {{"called_from", {{"file", "/x.py"}, {"line", 7}}}, {"generated", {"/g/b.py"}}}}},
            {{"id", "2/0"}},
            {{"id", "3/0"}, {"called_from", 3}}});
  const auto ids = [](auto... all) { return std::vector<std::string>{all...}; };
  CHECK(compilations_at(list, {.file = "/x.py", .line = 8}) == ids("0/0", "0/1"));
  CHECK(compilations_at(list, {.file = "/y.py", .line = 8}).empty());
  CHECK(compilations_at(list, {}).empty());
  CHECK(compilations_at({}, {.file = "/x.py", .line = 8}).empty());
  const CallPlace inside{.file = "/x.py", .line = 4, .function = "f", .function_line = 3};
  CHECK(backward_compilations_at(list, inside) == ids("0/1"));
  CHECK(backward_compilations_at(list, {.file = "/x.py", .line = 8}) == ids("0/1"));
  CHECK(backward_compilations_at(list, {.file = "/x.py", .line = 9}).empty());
  CHECK(backward_compilations_at({}, inside).empty());
  CHECK(compilations_of_file(list, "/g/a.py").forward == std::vector<std::string>{"0/1"});
  CHECK(compilations_of_file(list, "/g/b.py").backward == std::vector<std::string>{"0/1"});
  CHECK(compilations_of_file(list, "/g/c.py").forward.empty());
}

TEST_CASE("compilations of a hostile trace are left out or empty", "[compilations]") {
  for (const Json& compilations :
       {Json(), Json(3), Json::object(), Json::array(), Json::array({1, nullptr, "x", {1}})})
    CHECK(described({{"compilations", compilations}}).empty());
  CHECK(described("x").empty());
  const Json list = described(
      {{"compilations",
        {{{"line", std::uint64_t{1} << 40}, {"breaks", {{{"line", -1}}}}, {"time", "long"}}}}});
  CHECK(list[0]["line"] == 0);
  CHECK(list[0]["breaks"][0]["line"] == 0);
  CHECK_FALSE(list[0].contains("time"));
  CHECK(graph_break_reason({}, "", 0).empty());
  CHECK(failed_guard(read({{{"recompile_reasons", 3}}, 5}), "").empty());
}

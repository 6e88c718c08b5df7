// The answers of `optrace explain --compiled`.

#include "report/formats/compiled_output.h"

#include <string_view>

#include <catch2/catch.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

using namespace optrace;
using Json = nlohmann::json;

namespace {

Report compiled(std::string_view compilations) {
  Report report;
  static_cast<WrittenReport&>(report) = parse_report(fmt::format(
      R"({{"schema": "optrace.report/1", "torch": {{"version": "2.6.0", "git_version": ""}},
          "device": "cpu", "compilations": {}, "roots": []}})",
      compilations));
  report.recording.call = "python train.py";
  report.recording.python = "3.11.7";
  return report;
}

}  // namespace

TEST_CASE("compilations are listed with causes, breaks and kernels", "[compiled_output]") {
  const Report report = compiled(R"([
      {"id": "0/1", "function": "forward", "file": "/x/train.py", "line": 4, "graph_ops": 2,
       "time": 5000000000, "inductor_time": 4000000000, "compiler_time": 3000000000,
       "cache": "miss",
       "called_from": {"file": "/x/train.py", "line": 20},
       "backward": {"time": 2000000,
          "kernels": [{"name": "cpp_fused_0", "file": "/g/d.py", "origins": []}],
          "not_fused": [{"producer": "cpp_fused_0", "consumer": "cpp_fused_1", "reason": "no"},
                        {"producer": "cpp_fused_0", "consumer": "mm", "extern": true}]},
       "recompile_reasons": ["0/0: size", "0/0: stride"],
       "breaks": [{"file": "/x/model/train.py", "line": 6, "reason": "print"}],
       "kernels": [
          {"name": "cpp_fused_add_relu_10", "file": "/g/c.py", "origins": [
              {"op": "aten::add.Tensor", "file": "/x/train.py", "line": 5},
              {"op": "aten::relu", "file": "/x/train.py", "line": 5},
              {"op": "aten::mul.Tensor", "file": "/x/model/train.py", "line": 16}]},
          {"name": "cpp_fused_sum_2", "file": "/g/c.py", "source": {"file": "/g/k.cpp", "line": 3},
           "origins": [{"op": "aten::sum"}]},
          {"name": "cpp_fused_3", "file": "/g/c.py", "origins": []}]},
      {"id": "1/0", "function": "torch_dynamo_resume_in_forward_at_6", "file": "", "line": 0,
       "failure": "Unsupported: no", "recompile_limit": true, "recompile_reasons": [], "breaks": []}])");
  CHECK(compiled_text(report, {}) == R"(python train.py
torch       2.6.0 on cpu, Python 3.11.7
compiled    1 graph in 5 s, of which Inductor took 4 s; 1 again, for a failed guard; graph breaks at 1 line

0/1  forward  /x/train.py:4
  called at   /x/train.py:20
  again, as   0/0: size
              0/0: stride
  graph       2 ops, 5 s (Inductor 4 s, compilers 3 s), cache miss
  backward    2 ms
  breaks at   model/train.py:6: print
  kernel      cpp_fused_sum_2  /g/k.cpp:3
                aten::sum
  kernel      cpp_fused_3
                none of the graph's ops, as in a copy that changes a layout
  kernel      cpp_fused_add_relu_10
                /x/train.py:5      aten::add.Tensor, aten::relu
                model/train.py:16  aten::mul.Tensor
  backward    cpp_fused_0
                PyTorch took it from its cache and keeps no record of the ops in it
  not fused   cpp_fused_0 with cpp_fused_1: no

1/0  torch_dynamo_resume_in_forward_at_6
  continues   forward after a graph break
  failed      Unsupported: no
  limit       reached: PyTorch compiles the function no more, and other inputs run uncompiled
)");
}

TEST_CASE("an answer without compilations says so", "[compiled_output]") {
  Report report = compiled("null");
  CHECK(compiled_text(report, {}) ==
        "python train.py\ntorch       2.6.0 on cpu, Python 3.11.7\n\n"
        "torch.compile compiled nothing.\n");
  report.recording.exit_status = 3;
  CHECK_THAT(compiled_text(report, {}),
             Catch::Contains("The program failed with exit status 3. What it would have compiled "
                             "later is missing."));
  const Json json = Json::parse(compiled_json(report));
  CHECK(json["schema"] == "optrace.compiled/1");
  CHECK(json["program"] == "python train.py");
  CHECK(json["exit_status"] == 3);
  CHECK(json["compilations"] == Json::array());
}

TEST_CASE("texts of a hostile program can't control the terminal", "[compiled_output]") {
  const Report report = compiled(R"([
      {"id": "\u001b[1m", "function": "\u001b[1m", "file": "\u001b[1m", "line": 1,
       "called_from": {"file": "\u001b[1m", "line": 1}, "failure": "\u001b[1m",
       "recompile_reasons": ["\u001b[1m", 3], "breaks": [{"reason": "\u001b[1m"}, 7],
       "kernels": [{"name": "\u001b[1m", "source": {"file": "\u001b[1m", "line": 1},
                    "origins": [{"op": "\u001b[1m", "file": "\u001b[1m", "line": 1}, 3]}, 5]},
      "?"])");
  CHECK_THAT(compiled_text(report, {}), !Catch::Contains("\x1b"));
  CHECK_THAT(compiled_json(report), !Catch::Contains("\x1b"));
}

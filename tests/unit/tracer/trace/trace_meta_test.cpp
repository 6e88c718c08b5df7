#include <catch2/catch.hpp>

#include "tracer/trace/trace_meta_json.h"

using namespace optrace;
using Json = nlohmann::json;

namespace {

constexpr const char* kOfEvery = R"({"torch": {"version": "2.6.0", "git_version": "a", "cuda": null,
    "debug": false}, "torch_folder": "/torch", "device": "cuda", "python": "3.11.2",
    "backward": false, "op_names": {"add_Tensor": "aten::add.Tensor"}, "warnings": [],
    "start_unix_ns": 5, "probes": {"mode": "jump", "placed": 7, "failed": 0}})";

// Returns the description of a trace that has these members, too.
Json with(const char* members) {
  Json json = Json::parse(kOfEvery);
  json.update(Json::parse(members));
  return json;
}

}  // namespace

TEST_CASE("the metadata of a trace is written as it was read", "[trace_meta]") {
  for (const char* const members :
       {R"({"op": "aten::add", "call": "an add", "options": [], "sample_from": null,
            "inputs": [{"name": "x", "shape": [2], "dtype": "float32", "device": "cpu"}],
            "shortfalls": {}, "comparison": {"repeatable": true, "equal": false},
            "attention": [{"chosen": "math"}], "dispatch_tables": {}, "boxed_kernels": {},
            "dry_run": {"arch": "sm_90", "gpu_model": "H100", "devices": 1, "libraries": ["a"]}})",
        R"({"op": "", "call": "train.py", "inputs": [], "process": {"id": 7, "rank": 0},
            "recording": {"duration_ns": 0, "events": 3, "command_cpu_ns": 9}, "exit_status": 1,
            "steps": {"first": 2, "count": 0, "ended_after": 4}, "untraced_children": true,
            "selection": {"ops": "a*", "from_module": "", "skip": 0, "count": 1},
            "other_traces": ["b"], "shortfalls": {"texts_lost": 2}, "compilations": [{"id": "0/0"}],
            "boxed_kernels": {"aten::add.Tensor": ["registered"]}, "generated_code": [],
            "dispatch_tables": {"aten::add.Tensor": "CPU: x"}, "triton_kernels": [],
            "python_calls_beyond_paths": {"m.f": 2, "m.items": -1},
            "interpreter": {"path": "/python", "from": "PATH"}})"}) {
    const Json json = with(members);
    CHECK(to_json(trace_meta_of(json)) == json);
  }
}

TEST_CASE("hostile metadata of a trace is skipped", "[trace_meta]") {
  CHECK(trace_meta_of(Json::array({1})) == TraceMeta());
  Json hostile = with("{}");
  for (Json& member : hostile) {
    for (const char* const other :
         {"null", "-1", "[1]", R"([{"name": 1}])", R"({"a": {"b": 1}})"}) {
      member = Json::parse(other);
      CHECK_NOTHROW(trace_meta_of(hostile));
    }
  }
  CHECK(trace_meta_of(hostile).torch == TorchBuild());
}

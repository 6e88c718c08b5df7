#include "report/compiled/triton_kernels.h"

#include <utility>

#include <catch2/catch.hpp>

#include "report/compiled/triton_launches.h"
#include "tests/unit/report/frame_details.h"
#include "tracer/trace/trace_meta_json.h"

using optrace::add_triton_kernels;
using optrace::Frame;
using optrace::Layer;
using optrace::Report;
using optrace::trace_meta_of;
using optrace::TritonKernel;
using optrace::TritonKernels;
using optrace::written_detail;
using Json = nlohmann::json;

namespace {

TritonKernels kernels() {
  return TritonKernels(trace_meta_of(Json::parse(R"({"torch_folder": "/s/torch", "triton_kernels": [
      {"name": "scale", "file": "/x.py", "line": 7, "configurations": [
          {"constants": {"BLOCK": 128}, "num_warps": 4, "num_stages": 3, "registers": 16,
           "shared_memory": 0, "local_memory": 0},
          {"constants": {"BLOCK": 256}, "num_warps": 4, "num_stages": 3, "registers": 20,
           "shared_memory": 0, "local_memory": 8}]},
      {"name": "triton_add", "generated_file": "/g/a.py", "file": "/g/k.py", "line": 19,
       "configurations": [
          {"constants": {"XBLOCK": 64}, "num_warps": 2, "num_stages": 1, "chosen": false},
          {"constants": {"XBLOCK": 128}, "num_warps": 2, "num_stages": 1, "chosen": true}]},
      {"name": "triton_add", "generated_file": "/g/b.py", "file": "/s/torch/k.py", "line": 3,
       "configurations": [{"constants": {"XBLOCK": 8}, "num_warps": 1}]}]})")));
}

Frame launch(const char* name, const char* figures) {
  Frame frame;
  frame.layer = Layer::device;
  frame.name = name;
  frame.detail = optrace::read_detail(Json{{"launches", {Json::parse(figures)}}});
  return frame;
}

Frame python(const char* name, const char* file, Frame child) {
  Frame frame;
  frame.layer = Layer::python;
  frame.name = name;
  optrace::FrameSource source;
  source.file = file;
  source.line = 1;
  frame.source = std::move(source);
  frame.children.push_back(std::move(child));
  return frame;
}

/// Returns the frame of a kernel's launch below `root`.
Frame noted(Frame root) {
  Report report;
  report.roots.push_back(std::move(root));
  add_triton_kernels(report, kernels());
  Frame frame = std::move(report.roots.front());
  while (!frame.children.empty()) {
    Frame child = std::move(frame.children.front());
    frame = std::move(child);
  }
  return frame;
}

}  // namespace

TEST_CASE("a Triton kernel is found by its name and the generated file", "[triton]") {
  const TritonKernels known = kernels();
  REQUIRE(known.find("", "scale") != nullptr);
  CHECK(known.find("", "scale")->file == "/x.py");
  CHECK_FALSE(known.find("", "scale")->is_tuned());
  CHECK(known.find("/g/a.py", "scale") == known.find("", "scale"));
  CHECK(known.find("/g/a.py", "triton_add")->is_tuned());
  CHECK(known.find("/g/b.py", "triton_add")->file == "torch/k.py");
  CHECK(known.find("/g/c.py", "triton_add") == nullptr);
  CHECK(known.find("", "other") == nullptr);
}

TEST_CASE("functions with the same name have no known definition", "[triton]") {
  const TritonKernels known(trace_meta_of(Json::parse(R"({"triton_kernels": [
      {"name": "k", "file": "/x.py", "line": 7, "configurations": [{"num_warps": 1}]},
      {"name": "k", "file": "/y.py", "line": 7, "configurations": [{"num_warps": 2}]}]})")));
  const TritonKernel* const kernel = known.find("", "k");
  REQUIRE(kernel != nullptr);
  CHECK(kernel->file.empty());
  CHECK(kernel->configurations.size() == 2);
}

TEST_CASE("a launch has the constants of the configuration that its figures tell", "[triton]") {
  const Frame large =
      noted(launch("scale", R"({"block": [128, 1, 1], "registers": 20, "shared_memory": 0})"));
  CHECK(large.source->file == "/x.py");
  CHECK(large.source->line == 7U);
  CHECK(written_detail(large)["launches"][0]["constants"] == Json{{"BLOCK", 256}});
  CHECK(written_detail(large)["launches"][0]["num_stages"] == 3);
  CHECK(written_detail(large)["launches"][0]["num_warps"] == 4);
  CHECK_FALSE(written_detail(large).contains("configurations"));
  // Without registers, both are possible; they have the stages in common.
  const Frame either = noted(launch("scale", R"({"block": [128, 1, 1], "shared_memory": 0})"));
  CHECK_FALSE(written_detail(either)["launches"][0].contains("constants"));
  CHECK(written_detail(either)["launches"][0]["num_stages"] == 3);
  const Frame neither = noted(launch("scale", R"({"block": [64, 1, 1], "shared_memory": 0})"));
  CHECK_FALSE(written_detail(neither)["launches"][0].contains("num_stages"));
}

TEST_CASE("a launch is of the chosen configuration, except in a benchmark", "[triton]") {
  const char* const figures = R"({"block": [64, 1, 1]})";
  const auto generated = [&](Frame child) {
    Frame frame = python("a.call", "/g/a.py", std::move(child));
    frame.detail.edit().generated = true;
    return frame;
  };
  const char* const autotuner = "torch/_inductor/runtime/triton_heuristics.py";
  Frame run = python("torch._inductor.runtime.triton_heuristics.CachingAutotuner.run", autotuner,
                     launch("triton_add", figures));
  run.detail.edit().origins = {{{}, {}, "/x.py", 5, {}}};
  const Frame ran = noted(generated(std::move(run)));
  CHECK(written_detail(ran)["launches"][0]["constants"] == Json{{"XBLOCK", 128}});
  CHECK(written_detail(ran)["configurations"].size() == 2);
  CHECK(written_detail(ran)["configurations"][0]["chosen"] == false);
  CHECK(written_detail(ran)["origins"][0]["line"] == 5);
  const Frame tried =
      noted(generated(python("torch._inductor.runtime.triton_heuristics.CachingAutotuner.bench",
                             autotuner, launch("triton_add", figures))));
  CHECK_FALSE(written_detail(tried)["launches"][0].contains("constants"));
  CHECK(written_detail(tried)["launches"][0]["num_stages"] == 1);
}

TEST_CASE("Triton kernels of a hostile trace are skipped", "[triton]") {
  for (const char* const text :
       {"{}", R"({"triton_kernels": 3})", R"({"triton_kernels": [1, null, "k", [1], {}]})",
        R"({"triton_kernels": [{"name": 3, "configurations": 4}]})"})
    CHECK(TritonKernels(trace_meta_of(Json::parse(text))).empty());
  const TritonKernels known(
      trace_meta_of(Json::parse(R"({"triton_kernels": [{"name": "k", "line": -1,
      "file": ["/x"], "configurations": [7, {"constants": [1], "num_warps": -4, "chosen": 1},
      {"constants": {"A": {"b": 1}, "C": null}}]}]})")));
  const TritonKernel* const kernel = known.find("", "k");
  REQUIRE(kernel != nullptr);
  CHECK(kernel->file.empty());
  REQUIRE(kernel->configurations.size() == 2);
  CHECK(kernel->configurations[0].constants.empty());
  CHECK_FALSE(kernel->configurations[0].num_warps);
  CHECK_FALSE(kernel->is_tuned());
  CHECK(kernel->configurations[1].constants ==
        std::vector<optrace::NamedConstant>{{"C", std::monostate()}});
}

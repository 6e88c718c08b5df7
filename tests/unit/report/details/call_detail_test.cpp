#include "report/details/call_detail.h"

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "report/check/check.h"
#include "report/lines/failures.h"
#include "report/merge/merge.h"
#include "report/model/report.h"
#include "tests/unit/report/frame_details.h"
#include "tests/unit/report/merged_timeline.h"
#include "tests/unit/report/written_report.h"
#include "tests/unit/trace_builder.h"

using namespace optrace;

namespace {

constexpr const char* kLaunch = "cudaLaunchKernel";
constexpr const char* kAddKernel = "_ZN2at6native10add_kernelEPfi";

// Builds a trace in which one function makes a launch for each record.
TraceBuilder launches(const std::vector<std::string>& records) {
  TraceBuilder t;
  t.trace.meta.device = "cuda";
  t.trace.meta.dry_run = {{"sm_90", "H100", 2}, {"libcudart.so.12"}};
  t.trace.modules = {{"/x/libtorch_cuda.so", ""}, {"/y/libcudart.so.12", ""}};
  const auto caller = t.function("_ZN2at6native10gpu_kernelEv"), launch = t.function(kLaunch);
  t.trace.functions[launch].module = 1;
  t.trace.op_records.emplace_back("{}");
  t.enter(caller, kNone, 1000);
  for (const std::string& record : records) {
    t.enter(launch, caller, 900);
    t.trace.op_records.push_back(record);
    t.trace.threads[0].events.push_back(
        {.kind = EventKind::call_record,
         .what = static_cast<std::uint32_t>(t.trace.op_records.size() - 1)});
  }
  count_paths(t.trace, {});
  return t;
}

std::string kernel(int blocks) {
  return R"({"call": "cudaLaunchKernel", "kind": "kernel", "kernel": ")" + std::string(kAddKernel) +
         R"(", "grid": [)" + std::to_string(blocks) + R"(, 1, 1], "block": [128, 1, 1]})";
}

}  // namespace

TEST_CASE("kernels hang on the call that launched them, by how they were launched",
          "[call_detail]") {
  const TraceBuilder t = launches({kernel(4), kernel(8), kernel(8)});
  const Report report = merge(t.trace, nullptr, {});
  CHECK(report.dry_run == EmulatedDevice{"sm_90", "H100", 2});
  REQUIRE(report.roots.size() == 1);
  const Frame& launch = report.roots[0].children.at(0);
  CHECK(launch.name == kLaunch);
  CHECK(written_detail(launch)["emulated"] == true);
  CHECK(launch.calls == 3);
  const Frame& device = launch.children.at(0);
  CHECK(device.layer == Layer::device);
  CHECK(device.name == "at::native::add_kernel");
  CHECK(*device.symbol == std::string(kAddKernel));
  CHECK(device.calls == 3);
  CHECK(device.thread == launch.thread);
  REQUIRE(written_detail(device)["launches"].size() ==
          3);  // Equal records are merged by the writer only.
  CHECK(written_detail(device)["launches"][0] ==
        nlohmann::json({{"grid", {4, 1, 1}}, {"block", {128, 1, 1}}, {"calls", 1}}));
  CHECK(call_note(*device.detail) == "grid 4×1×1, block 128×1×1; and 2 other kinds");
}

TEST_CASE("what a library was asked for is the frame's detail", "[call_detail]") {
  const TraceBuilder t =
      launches({R"({"call": "cudaLaunchKernel", "kind": "library", "m": 64, "trans": "N"})",
                R"({"call": "inner", "kind": "copy", "bytes": 4, "host_read": true})"});
  const Report report = merge(t.trace, nullptr, {});
  const Frame& frame = report.roots[0].children.at(0);
  CHECK(frame.children.empty());
  CHECK(written_detail(frame)["calls"] ==
        nlohmann::json::parse(R"([{"kind": "library", "m": 64, "trans": "N", "calls": 1},
          {"call": "inner", "kind": "copy", "bytes": 4, "host_read": true, "calls": 1}])"));
  CHECK(written_detail(frame)["reads_device_memory"] == true);
  CHECK(call_note(*frame.detail) == "m 64, trans N; and 1 other kind");
}

TEST_CASE("a graph's operations are a line", "[call_detail]") {
  CHECK(call_note(read_detail(R"({"calls": [{"kind": "library", "calls": 1, "engine": 3,
      "operations": [{"operation": "convolution forward", "alpha": 1.0, "conv": {"pads": [1]},
                      "w": {"dims": [8, 3], "strides": [3, 1], "type": "half", "uid": 2},
                      "x": {"dims": [4, 8], "type": "float"}}, 7, {}]}]})")) ==
        "convolution forward: w 8×3 half, x 4×8 float, engine 3");
}

TEST_CASE("what is no record of a call is passed over", "[call_detail]") {
  for (const char* const hostile :
       {"", "[]", "7", "{}", "{\"call\": 1, \"kind\": \"kernel\"}", "{\"call\": \"x\"}",
        "{\"call\": \"x\", \"kind\": []}", "{\"call\": \"x\", \"kind\": \"library\"", "\xff\xfe",
        "{\"call\": \"x\", \"kind\": \"kernel\", \"kernel\": {}, \"host_read\": 3}"}) {
    CAPTURE(hostile);
    const TraceBuilder t = launches({hostile});
    const Report report = merge(t.trace, nullptr, {});
    REQUIRE(report.roots.size() == 1);
    CHECK(report.roots[0].children.at(0).children.empty());
  }
  CHECK(call_note({}).empty());
  CHECK(call_note(read_detail(R"({"calls": []})")).empty());
  CHECK(call_note(read_detail(R"({"calls": [3]})")).empty());
  const Trace empty;
  const OpRecords no_records(empty);
  const CallDetails none(empty, no_records);
  CHECK(none.of("x", std::vector<OpCallCount>{{7, 0, 1}}).calls.empty());
}

TEST_CASE("a call that failed is a frame with its error, wherever it was noted", "[call_detail]") {
  const std::string failed =
      R"({"call": "cudaMalloc", "kind": "failed", "error": 2, "status": "cudaErrorMemoryAllocation"})";
  const TraceBuilder t = launches(
      {R"({"call": "cudaMalloc", "kind": "refused", "why": "no memory"})", failed, failed});
  const Report report = merge(t.trace, nullptr, {});
  const std::vector<Failure> found = failures(report);
  REQUIRE(found.size() == 1);
  const Frame& call = *found[0].path.back();
  CHECK(call.name == "cudaMalloc");
  CHECK(call.layer == Layer::library);
  CHECK(written_detail(call)["library"] == "CUDA");
  CHECK(found[0].error == "cudaErrorMemoryAllocation (2)");
  CHECK(found[0].why == "no memory");
  CHECK_FALSE(found[0].refused);
  CHECK(found[0].path[found[0].path.size() - 2]->name == kLaunch);
  CHECK(call_note(*call.detail) == "failed: cudaErrorMemoryAllocation (2): no memory");
}

TEST_CASE("what failed may be anything but text that is believed", "[call_detail]") {
  CHECK_FALSE(call_failure(read_detail("null")));
  CHECK_FALSE(call_failure(read_detail(R"({"calls": 3})")));
  CHECK_FALSE(call_failure(read_detail(R"({"calls": [{"kind": "library"}]})")));
  const auto odd =
      call_failure(read_detail(R"({"calls": [{"kind": "failed", "error": "two"}, 7]})"));
  REQUIRE(odd);
  CHECK(odd->error.empty());
  CHECK(odd->calls == 1);
  const auto refused = call_failure(
      read_detail(R"({"calls": [{"kind": "refused", "error": 3000, "why": "odd", "calls": 4}]})"));
  REQUIRE(refused);
  CHECK(refused->refused);
  CHECK(refused->error == "error 3000");
  CHECK(refused->calls == 4);
}

TEST_CASE("what a frame leads to is in the order of the first calls", "[call_detail]") {
  const auto launch_of = [](const std::string& symbol) {
    return R"({"call": "cudaLaunchKernel", "kind": "kernel", "kernel": ")" + symbol + R"("})";
  };
  TraceBuilder t = launches({launch_of("first"), launch_of("second"), launch_of("third")});
  const Report report = merge(t.trace, nullptr, {});
  const std::vector<Frame>& kernels = report.roots.at(0).children.at(0).children;
  REQUIRE(kernels.size() == 3);
  CHECK(kernels[0].name == "first");
  CHECK(kernels[1].name == "second");
  CHECK(kernels[2].name == "third");

  // Launches by functions that are folded into the frame are listed between the frame's callees.
  t = TraceBuilder();
  const auto caller = t.function("_ZN2at6native10gpu_kernelEv");
  const auto stub = t.function("__device_stub__one"), other_stub = t.function("__device_stub__two");
  const auto helper = t.function("_ZN2at6native6helperEv");
  t.trace.op_records = {"{}", launch_of("first"), launch_of("second")};
  t.enter(caller, kNone, 1000);
  for (const auto& [function, record] : {std::pair(stub, 1U), {helper, 0U}, {other_stub, 2U}}) {
    t.enter(function, caller, 900);
    if (record != 0)
      t.trace.threads[0].events.push_back({.kind = EventKind::call_record, .what = record});
  }
  const Report folded = merge_timeline(t.trace, nullptr, {});
  const std::vector<Frame>& children = folded.roots.at(0).children;
  REQUIRE(children.size() == 3);
  CHECK(children[0].name == "first");
  CHECK(children[1].name == "at::native::helper");
  CHECK(children[2].name == "second");
}

TEST_CASE("a library's call without an entry of its own is a frame, and counted", "[call_detail]") {
  TraceBuilder t;
  const auto kernel = t.function("_ZN2at6native9lapackSvdEv");
  const auto inner = t.function("mkl_lapack__sgesdd_");
  t.trace.op_records = {"{}",
                        R"({"call": "sgesdd_", "kind": "library", "library": "LAPACK", "m": 8})",
                        R"({"call": "sgesdd_", "kind": "library", "library": "LAPACK", "m": 9})",
                        R"({"call": "convolution", "kind": "library", "library": "oneDNN"})"};
  t.enter(kernel, kNone, 1000);
  for (const std::uint32_t record : {1U, 2U, 2U, 3U}) {
    t.enter(inner, kernel, 900);
    t.trace.threads[0].events.push_back({.kind = EventKind::call_record, .what = record});
  }
  const Report report = merge_timeline(t.trace, nullptr, {});
  CHECK(written_detail(report.roots.at(0)).is_null());
  REQUIRE(report.roots[0].children.size() == 2);
  const Frame& call = report.roots[0].children[0];
  CHECK(call.name == "sgesdd_");
  CHECK(call.layer == Layer::library);
  CHECK(call.calls == 3);
  CHECK(call.thread == report.roots[0].thread);
  CHECK(written_detail(call)["library"] == "BLAS/LAPACK");
  CHECK(written_detail(call)["calls"].size() == 2);
  CHECK(call_note(*call.detail) == "m 8; and 1 other kind");
  CHECK(report.roots[0].children[1].name == "dnnl_primitive_execute");
  CHECK(to_text(report, {}).find("4 library calls (BLAS/LAPACK, oneDNN)") != std::string::npos);

  const KnownNames names({&t.trace, 1}, nullptr);
  const std::vector<CheckResult> results =
      check(report, names, {parse_rule("no library call"), parse_rule("calls sgesdd_ == 3")});
  CHECK(results[0].status == CheckResult::Status::failed);
  CHECK(results[1].status == CheckResult::Status::passed);
  // With everything shown, the library's own function is the frame of the call.
  const Report all = merge_timeline(t.trace, nullptr, {.all = true});
  CHECK(all.roots.at(0).children.size() == 1);
  CHECK(check(all, names, {parse_rule("calls sgesdd_ == 3")})[0].status ==
        CheckResult::Status::passed);
}

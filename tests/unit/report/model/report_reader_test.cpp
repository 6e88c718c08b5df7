#include "report/model/report_reader.h"

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "platform/error.h"
#include "report/check/check.h"
#include "report/check/formats/check_output.h"
#include "report/compare/compare.h"
#include "report/compare/formats/comparison_output.h"
#include "tests/unit/report/frame_details.h"
#include "tests/unit/report/written_report.h"
#include "tests/unit/sanitized.h"

using namespace optrace;
using Json = nlohmann::json;

namespace {

/// A report with every key that the reader accepts or the output uses.
const std::string& full_report() {
  static const std::string text = R"({
"schema": "optrace.report/1",
"torch": {"version": "2.6.0", "git_version": "abc", "cuda": "12.4", "debug": false},
"device": "cuda", "dry_run": {"arch": "sm_90", "gpu_model": "H100", "devices": 2},
"source": {"version": "2.6.0", "exact": true},
"processes": [{"id": 7, "rank": 0}, {"id": 8, "rank": 1}],
"python_calls": {"__main__.f": 3},
"roots": [{"layer": "dispatcher", "name": "at::_ops::mm::call", "symbol": "_ZN2at4_ops2mm4callE",
  "library": "libtorch_cpu.so", "op": "aten::mm", "thread": 12, "calls": 3,
  "source": {"file": "a.cpp", "line": 3, "call_line": 4, "url": "https://x/y"},
  "detail": {"step": "call", "schema": "mm(Tensor self) -> Tensor", "call_lines": [4, 5],
    "python_name": "torch.mm", "ranks": [0], "threads": 2, "tail_call": true,
    "key_set": ["CUDA"], "included": [], "excluded": ["AutogradCUDA"], "fallthrough": ["Conjugate"],
    "dispatch_key": "CUDA", "kernel": "mm", "registered_at": "a.cpp:9", "dispatch": "kernel",
    "grad_mode": false, "inference_mode": true, "dispatch_modes": 1, "variants_left_out": 1,
    "arguments": [{"name": "self", "value": {"tensor": {"shape": [2, 2], "strides": [2, 1],
      "dtype": "float32", "device": "cuda:0", "requires_grad": false, "keys": ["CUDA"]}}},
      {"name": "n", "value": [1, 2.5, {"type": "dtype", "value": "float32"}, null]}],
    "results": [{"tensor": {"shape": null, "strides": null, "dtype": "float32", "device": "cuda:0",
      "requires_grad": false, "keys": []}, "relation": "view", "of": "self"}],
    "variants": [{"calls": 1, "key_set": ["CUDA"], "dispatch_key": "CUDA", "arguments": []},
      {"calls": 2, "key_set": ["CUDA"], "dispatch_key": "CUDA", "arguments": []}]},
  "children": [{"layer": "library", "name": "cublasSgemm_v2", "symbol": null, "library": null,
    "op": null, "thread": 12, "calls": 3, "source": null,
    "detail": {"library": "cuBLAS", "emulated": true, "reads_device_memory": true,
      "time": {"total": 9, "shortest": 1, "longest": 4}, "device_work_left_out": 1,
      "calls": [{"kind": "library", "call": "cublasSgemm_v2", "m": 2, "n": 2, "k": 2, "calls": 3},
        {"kind": "failed", "error": 2, "status": "cudaErrorMemoryAllocation", "why": "no room",
         "calls": 1}, {"kind": "copy", "bytes": 8, "calls": 1}]},
    "children": [{"layer": "device", "name": "gemm", "thread": 12, "calls": 3,
      "detail": {"launches": [{"grid": [1, 1, 1], "block": [32, 1, 1], "shared_memory": 0,
        "stream": 0, "calls": 3}], "duration_ns": {"total": 9, "shortest": 1, "longest": 4}},
      "children": []}]},
  {"layer": "autograd", "name": "MmBackward0", "thread": 13, "calls": 1, "children": [],
   "detail": {"node": "MmBackward0", "backward_of": "aten::mm",
     "formulas": [{"arguments": "self", "formula": "grad", "line": 3}]}}]}]})";
  return text;
}

Report as_report(WrittenReport written) {
  Report report;
  static_cast<WrittenReport&>(report) = std::move(written);
  return report;
}

/// Checks that a hostile text is refused with a reason, or read as a report that every output
/// accepts.
void survive(const std::string& text) {
  Report report;
  try {
    report = as_report(parse_report(text));
  } catch (const ReportError& error) {
    CHECK(std::string(error.what()).size() > 5);
    return;
  }
  static const Report other = as_report(parse_report(full_report()));
  try {
    const std::string again = to_json(report);
    CHECK(to_json(as_report(parse_report(again))) == again);
    for (const bool why : {false, true})
      CHECK(!to_text(report, {.style = {}, .width = 60, .all = false, .why = why}).empty());
    CHECK(!to_html_page(report, {}, {}).empty());
    std::vector<Rule> rules;
    for (const char* const rule : {"calls aten::mm", "mm@cuda uses cublas", "no implicit copy",
                                   "no kernel of dtype float64", "launches <= 2", "no failure"})
      rules.push_back(parse_rule(rule));
    const auto results = check(report, KnownNames({}, nullptr), rules);
    CHECK(!to_json(report, results).empty());
    CHECK(!to_sarif(results).empty());
    CHECK(!to_json(other, report, compare(other, report)).empty());
  } catch (const Error& error) {
    CHECK(!error.remedy().empty());
  }
}

/// Returns pointers to all values of a document.
std::vector<Json::json_pointer> places_in(const Json& document) {
  std::vector<Json::json_pointer> places;
  const Json flat = document.flatten();
  for (const auto& [path, value] : flat.items())
    for (Json::json_pointer at(path); !at.empty(); at = at.parent_pointer()) {
      if (std::find(places.begin(), places.end(), at) != places.end()) break;
      places.push_back(at);
    }
  return places;
}

std::string reason(const std::string& text) {
  try {
    parse_report(text);
  } catch (const ReportError& error) {
    return error.what();
  }
  return "none";
}

std::string with(const char* place, const Json& value) {
  Json changed = Json::parse(full_report());
  changed[Json::json_pointer(place)] = value;
  return changed.dump();
}

}  // namespace

TEST_CASE("a report's JSON is read, all of it", "[report_reader]") {
  const WrittenReport report = parse_report(full_report());
  CHECK(report.torch.version == "2.6.0");
  CHECK(report.device == "cuda");
  CHECK(report.python_calls == CallsByName{{"__main__.f", 3}});
  REQUIRE(report.dry_run);
  CHECK(report.dry_run->devices == 2);
  CHECK(report.source_exact);
  CHECK(report.processes.size() == 2);
  REQUIRE(report.roots.size() == 1);
  const Frame& mm = report.roots[0];
  CHECK(name_of(mm.layer) == "dispatcher");
  CHECK(mm.op == "aten::mm");
  CHECK(mm.calls == 3);
  CHECK(mm.thread == 12);
  REQUIRE(mm.source);
  CHECK(mm.source->line == 3);
  CHECK(mm.source->call_line == 4U);
  REQUIRE(mm.children.size() == 2);
  CHECK(written_detail(mm.children[0])["library"] == "cuBLAS");
  const Frame& kernel = mm.children[0].children[0];
  CHECK(kernel.layer == Layer::device);

  // Writing, reading and writing again gives the same bytes; also from a stream.
  const std::string text = to_json(as_report(parse_report(full_report())));
  std::istringstream stream(text);
  CHECK(to_json(as_report(parse_report(stream))) == text);
  CHECK(Json::parse(text)["roots"][0]["detail"] ==
        Json::parse(full_report())["roots"][0]["detail"]);
}

TEST_CASE("times are read from the details", "[report_reader]") {
  const auto frame_with = [](const std::string& detail) {
    WrittenReport report = parse_report(
        R"({"schema": "optrace.report/1", "roots": [{"layer": "kernel", "name": "f", "detail": )" +
        detail + R"(, "children": []}]})");
    return std::move(report.roots[0]);
  };
  const Frame whole =
      frame_with(R"({"time": {"total": 9, "shortest": 0, "longest": 4}, "threads": 2})");
  REQUIRE(whole.time);
  CHECK(whole.time->total == 9);
  REQUIRE(whole.time->range);
  CHECK(whole.time->range->shortest == 0);
  CHECK(whole.time->range->longest == 4);
  CHECK(whole.detail->threads == 2);

  const Frame part = frame_with(R"({"time": {"total": 9}})");
  REQUIRE(part.time);
  CHECK_FALSE(part.time->range);
  CHECK_FALSE(part.detail);

  // Of other types, it is not a time.
  for (const char* const other : {R"({"time": 9})", R"({"time": {"total": "9"}})"}) {
    CHECK_FALSE(frame_with(other).time);
    CHECK_FALSE(frame_with(other).detail);
  }
}

TEST_CASE("a change of a shared value leaves its copies as they are", "[report_reader]") {
  const Shared<Detail> nothing;
  CHECK_FALSE(nothing);
  CHECK(nothing->threads == 0);
  Shared<Detail> one;
  one.edit().threads = 2;
  const Shared<Detail> copy = one;
  CHECK(&*copy == &*one);
  one.edit().threads = 3;
  CHECK(one->threads == 3);
  CHECK(copy->threads == 2);
  Shared<std::string> text;
  CHECK_FALSE(text);
  text.edit() = "mm";
  CHECK(text.value_or("") == "mm");
}

TEST_CASE("reports of other minor versions are read, of other major versions not",
          "[report_reader]") {
  const WrittenReport least = parse_report(
      R"({"schema": "optrace.report/1", "roots": [{"layer": "kernel", "name": "f", "children": []}]})");
  CHECK(least.torch.version.empty());
  CHECK(least.roots[0].calls == 1);
  CHECK_FALSE(least.roots[0].source);
  Json newer = Json::parse(full_report());
  const std::string known = to_json(as_report(parse_report(newer.dump())));
  newer["added"] = {{"later", {1, 2}}};
  newer["source"]["added"] = 1;
  newer["roots"][0]["added"] = Json::array();
  newer["roots"][0]["source"]["added"] = nullptr;
  CHECK(to_json(as_report(parse_report(newer.dump()))) == known);
  for (const char* const schema : {"optrace.report/2", "optrace.report/10", "optrace.report/1x",
                                   "optrace.check/1", "optrace.report"})
    CHECK(reason(with("/schema", schema)) ==
          std::string("its schema is ") + schema + ", not optrace.report/1");
}

TEST_CASE("what is no report is refused with the reason", "[report_reader]") {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  CHECK(reason("") == "it is not a JSON object");
  CHECK(reason(deep) == "it is not a JSON object");
  CHECK(reason("[1]") == "it is not a JSON object");
  CHECK(reason(full_report().substr(0, 700)) == "it is not a JSON object");
  CHECK(reason(full_report() + "}") == "it is not a JSON object");
  CHECK(reason("{\"schema\": \"\xff\xfe\"}") == "it is not a JSON object");
  CHECK(reason("{}") == "it has no schema");
  CHECK(reason(with("/schema", 1)) == "`schema` is not a string");
  CHECK(reason(with("/roots", Json::object())) == "the list `roots` is missing");
  CHECK(reason(with("/roots/0", 3)) == "a frame is not an object");
  CHECK(reason(with("/roots/0/layer", "nowhere")) == "a frame has an unknown layer");
  CHECK(reason(with("/roots/0/name", nullptr)) == "a frame lacks its layer or name");
  CHECK(reason(with("/roots/0/symbol", 3)) == "`symbol` is not a string");
  CHECK(reason(with("/roots/0/children", nullptr)) == "the list `children` is missing");
  for (const Json& number : {Json(-1), Json(1.5), Json(1e300), Json("3"), Json(true)})
    CHECK(reason(with("/roots/0/calls", number)) == "`calls` is not a whole number in range");
  CHECK(reason(with("/roots/0/source/line", 1ULL << 32U)) ==
        "`line` is not a whole number in range");
  CHECK(reason(with("/roots/0/detail", "x")) == "`detail` is not an object");
  CHECK(reason(with("/source/exact", "yes")) == "`exact` is not true or false");
  CHECK(reason(with("/source/of_torch", 1)) == "`of_torch` is not true or false");
  CHECK(reason(with("/source/made_from", 1)) == "`made_from` is not a string");
  CHECK(reason(with("/roots/0/source/call_exact", 0)) == "`call_exact` is not true or false");
  for (const Json& bounds : {Json(3), Json({3}), Json({3, -1}), Json({1, 1ULL << 32U})}) {
    Json changed = Json::parse(with("/roots/0/source/exact", false));
    changed["roots"][0]["source"]["interval"] = bounds;
    CHECK(reason(changed.dump()) == "`interval` is not a list of two lines");
  }
  std::string nested = full_report();
  nested.replace(nested.find("\"mm(Tensor self) -> Tensor\""), 27, deep);
  CHECK(reason(nested) == "`detail` is nested too deep");
  CHECK(reason(R"({"schema": "optrace.report/1", "roots": [], "later": )" + deep + "}") == "none");
  for (const char* const huge : {"1e999", "123456789012345678901234567890", "-0"}) {
    std::string changed = full_report();
    changed.replace(changed.find("\"thread\": 12"), 12, std::string("\"thread\": ") + huge);
    survive(changed);
  }

  std::ifstream missing("/nonexistent/report.json");
  CHECK_THROWS_WITH(parse_report(missing), "the stream can't be read");
}

TEST_CASE("trees as deep as a program's recursion are read", "[report_reader]") {
  const std::string level = R"({"layer": "kernel", "name": "f", "children": [)";
  std::string text = R"({"schema": "optrace.report/1", "roots": [)";
  constexpr int kDepth = 100'000;
  for (int i = 0; i < kDepth; ++i) text += level;
  for (int i = 0; i < kDepth; ++i) text += "]}";
  text += "]}";
  const WrittenReport report = parse_report(text);
  int depth = 0;
  for (const Frame* frame = &report.roots[0];; frame = &frame->children[0]) {
    ++depth;
    if (frame->children.empty()) break;
  }
  CHECK(depth == kDepth);
}

TEST_CASE("hostile reports do no harm", "[report_reader]") {
  survive(full_report());
  // Every value, replaced by one of another type or removed.
  const Json whole = Json::parse(full_report());
  const std::vector<Json> strangers = {nullptr,
                                       true,
                                       -1,
                                       1e300,
                                       ~0ULL,
                                       "",
                                       "\x1b[31m<b>\u202e",
                                       Json::array(),
                                       Json::object(),
                                       Json::array({-7}),
                                       Json::array({Json::array({Json::object()})}),
                                       {{"calls", "x"}, {"tensor", 3}, {"kind", {}}}};
  std::size_t first = 0;
  for (const Json::json_pointer& place : places_in(whole)) {
    CAPTURE(place.to_string());
    for (std::size_t i = first++ % kOneOf; i < strangers.size(); i += kOneOf) {
      Json changed = whole;
      changed[place] = strangers[i];
      survive(changed.dump());
    }
    Json changed = whole;
    Json& parent = changed[place.parent_pointer()];
    if (parent.is_object()) {
      parent.erase(place.back());
      survive(changed.dump());
    }
  }
  // Every byte changed, and the text truncated at every byte.
  std::mt19937 random(1);
  for (std::size_t at = 0; at < full_report().size(); at += kOneOf) {
    std::string spoiled = full_report();
    spoiled[at] = static_cast<char>(random());
    survive(spoiled);
    survive(full_report().substr(0, at));
  }
}

#include "report/json/report_json.h"

#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "report/model/report.h"
#include "tests/unit/report/written_report.h"
#include "tests/unit/trace_builder.h"

using Json = nlohmann::json;
using optrace::Frame;
using optrace::FrameSource;
using optrace::Layer;
using optrace::Report;

namespace {

Report small() {
  Report report;
  report.torch = {"2.6.0", "abc", "", false};
  report.device = "cpu";
  report.source_version = "2.6.0";
  report.source_of_torch = report.source_exact = true;
  Frame root;
  root.layer = Layer::kernel;
  root.name = "at::native::add";
  root.symbol = std::string("_ZN2at6native3addEv");
  root.library = "libtorch_cpu.so";
  root.op = "aten::add.Tensor";
  root.thread = 42;
  root.calls = 3;
  root.source = FrameSource{"aten/src/ATen/native/Add.cpp", 12, 7U, ""};
  Frame child;
  child.layer = Layer::library;
  child.name = "sgemm_";
  child.source = FrameSource{"", 0, 9U, ""};
  child.detail.edit().library = "BLAS";
  root.children.push_back(std::move(child));
  root.children.emplace_back();
  report.roots.push_back(std::move(root));
  return report;
}

}  // namespace

TEST_CASE("the report's JSON has the schema's keys, in its order", "[report_json]") {
  const std::string text = to_json(small());
  const auto ordered = nlohmann::ordered_json::parse(text);
  std::string keys;
  for (const auto& [key, value] : ordered.items()) keys += key + " ";
  CHECK(keys == "schema torch device dry_run source shortfalls roots ");
  keys.clear();
  for (const auto& [key, value] : ordered["roots"][0].items()) keys += key + " ";
  CHECK(keys == "layer name symbol library source op thread calls detail children ");

  const Json root = Json::parse(text)["roots"][0];
  CHECK(root["layer"] == "kernel");
  CHECK(root["calls"] == 3);
  CHECK(root["source"] == Json({{"file", "aten/src/ATen/native/Add.cpp"},
                                {"line", 12},
                                {"exact", true},
                                {"call_line", 7},
                                {"call_exact", true},
                                {"call_range", nullptr},
                                {"url", nullptr}}));
  CHECK(root["children"][0]["source"] == Json({{"file", nullptr},
                                               {"line", nullptr},
                                               {"exact", nullptr},
                                               {"call_line", 9},
                                               {"call_exact", true},
                                               {"call_range", nullptr},
                                               {"url", nullptr}}));
  CHECK(root["children"][1]["source"].is_null());
  CHECK(root["children"][1]["detail"].is_null());
}

TEST_CASE("bytes that are no UTF-8, and surrogates, are texts in the JSON", "[report_json]") {
  Report report = small();
  report.roots[0].name = "bad \xff\xfe name \xed\xb2\x80 \x1b[31m";
  report.roots[0].detail.edit().python_name = "\xc3\x28";
  const std::string text = to_json(report);
  const Json root = Json::parse(text)["roots"][0];
  CHECK(root["name"] == "bad \\xff\\xfe name \\udc80 \x1b[31m");
  CHECK(root["detail"]["python_name"] == "\\xc3(");
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("a report without roots, and one that is deep, are written", "[report_json]") {
  Report report = small();
  report.roots.clear();
  report.source_version.clear();
  CHECK(Json::parse(to_json(report))["source"]["version"].is_null());
  for (int i = 0; i < 20'000; ++i) {
    Frame outer;
    if (!report.roots.empty()) {
      outer.children.push_back(std::move(report.roots[0]));
      report.roots.clear();
    }
    report.roots.push_back(std::move(outer));
  }
  const std::string text = to_json(report);
  CHECK(std::count(text.begin(), text.end(), '{') == 20'003);
}

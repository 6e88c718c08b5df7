#include "report/details/attention_backends.h"

#include <utility>

#include <catch2/catch.hpp>

#include "tests/unit/report/frame_details.h"
#include "tracer/trace/trace_meta_json.h"

using optrace::add_attention_backends;
using optrace::attention_lines;
using optrace::Frame;
using optrace::Report;
using Json = nlohmann::json;

namespace {

Json described_tensor(const char* name, const Json& shape) {
  return {{"name", name}, {"value", {{"tensor", {{"shape", shape}, {"dtype", "float32"}}}}}};
}

/// Returns the lines of a call with these shapes of `query` and `key`.
std::vector<std::string> lines(const Json& meta, const Json& query, const Json& key) {
  Frame frame;
  frame.op = "aten::scaled_dot_product_attention";
  frame.detail = optrace::read_detail(
      Json{{"step", "call"},
           {"arguments", {described_tensor("query", query), described_tensor("key", key)}}});
  Report report;
  report.roots.push_back(std::move(frame));
  add_attention_backends(report, optrace::trace_meta_of(meta), nullptr);
  return attention_lines(report.roots.front().detail->dispatch->attention_backends);
}

}  // namespace

TEST_CASE("a call of attention has the backends of its inputs", "[attention]") {
  const Json meta = Json::parse(R"({"attention": [
      {"inputs": [{"name": "query", "shape": [2, 4], "dtype": "float32"},
                  {"name": "key", "shape": [2, 1], "dtype": "float32"}],
       "chosen": "math",
       "backends": [{"name": "flash", "refusals": [
           {"message": "No.", "file": "aten/src/sdp_utils.h", "line": 7}, {"message": "Never."}]}]},
      {"inputs": [{"name": "query", "shape": [2, 4], "dtype": "float32"}],
       "chosen": "flash",
       "backends": [{"name": "flash", "refusals": []}, {"name": "cudnn", "refusals": []}]}]})");
  CHECK(lines(meta, {2, 4}, {2, 1}) ==
        std::vector<std::string>{"math: chosen", "flash: refused at sdp_utils.h:7: No.",
                                 "flash: refused: Never."});
  CHECK(lines(meta, {2, 4}, {2, 4}) ==
        std::vector<std::string>{"flash: chosen", "cudnn: supports this call, too"});
  CHECK(lines(meta, {3, 4}, {2, 1}).empty());
}

TEST_CASE("the backends of a call of attention are not those of another dtype", "[attention]") {
  const Json meta = Json::parse(R"({"attention": [
      {"inputs": [{"name": "query", "shape": [2, 4], "dtype": "float16"}],
       "chosen": "flash", "backends": [{"name": "flash", "refusals": []}]}]})");
  CHECK(lines(meta, {2, 4}, {2, 4}).empty());
}

TEST_CASE("hostile descriptions of attention are skipped", "[attention]") {
  for (const char* text :
       {"{}", R"({"attention": 1})", R"({"attention": [1, null, {}, {"backends": 3}]})",
        R"({"attention": [{"inputs": {}, "backends": [null, {"name": 1}, {"name": ""}]}]})",
        R"({"attention": [{"inputs": [1], "chosen": [], "backends": [{"name": "x"}]}]})"})
    CHECK(lines(Json::parse(text), {2, 4}, {2, 4}).empty());
  CHECK(lines(Json::parse(R"({"attention": [{"chosen": "x", "backends": [{"name": "x",
      "refusals": [{"message": "m", "file": "f", "line": -1}, {"message": 1}, null]}]}]})"),
              {2}, {2}) == std::vector<std::string>{"x: refused: m"});
}

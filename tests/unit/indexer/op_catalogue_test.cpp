#include <random>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/core.h>

#include "indexer/catalogue/catalogue_json.h"
#include "indexer/store/op_facts.h"
#include "platform/error.h"

using namespace optrace;

namespace {

const std::string kConv2dOp =
    R"({"name": "aten::conv2d", "unambiguous_name": "conv2d", "line": 1724, "facts": )"
    R"({"schema": "conv2d(Tensor input) -> Tensor", "variants": ["function"], "structured": false, )"
    R"("kernels": [{"key": "CPU", "name": "at::native::conv2d", "structured": false}], )"
    R"("derivatives": [{"key": "Default", "node": "ConvBackward0", "line": 7, "backward": )"
    R"([{"arguments": ["input"], "text": "grad", "line": 8}], "forward": []}]}})";

std::string what_parse_ops_says(const std::string& lines) {
  try {
    (void)parse_ops(lines);
  } catch (const Error& error) {
    CHECK(error.status() == ExitStatus::failed);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("ops are read as the catalogue wrote them") {
  const auto ops = parse_ops(kConv2dOp + '\n' + kConv2dOp + '\n');
  REQUIRE(ops.size() == 2);
  CHECK(ops[0].name == "aten::conv2d");
  CHECK(ops[0].unambiguous_name == "conv2d");
  CHECK(ops[0].line == 1724);
  const OpFacts facts = parse_op_facts(ops[0].facts);
  CHECK(facts.schema == "conv2d(Tensor input) -> Tensor");
  CHECK(facts.kernels.at(0).name == "at::native::conv2d");
  CHECK(facts.derivatives.at(0).backward.at(0).line == 8);
  CHECK(ops[0].facts.find("structured") == std::string::npos);  // False is omitted.
  CHECK(parse_ops(kConv2dOp).size() == 1);                      // Without a last newline.
  CHECK(parse_ops("").empty());
}

TEST_CASE("what is no catalogue of ops is refused with its line") {
  for (const std::string line :
       {"x", "[]", "{}", "", R"({"name": 1})",
        R"({"name": "a::b", "unambiguous_name": "b", "line": 1})",
        R"({"name": "", "unambiguous_name": "b", "line": 1, "facts": {}})",
        R"({"name": "a\u0000b", "unambiguous_name": "b", "line": 1, "facts": {}})",
        R"({"name": "a::b", "unambiguous_name": "b", "line": "1", "facts": {}})",
        R"({"name": "a::b", "unambiguous_name": "b", "line": 1, "facts": {"kernels": [1]}})"}) {
    INFO(line);
    CHECK(what_parse_ops_says(fmt::format("{}\n{}\n", kConv2dOp, line)).find("line 2") !=
          std::string::npos);
  }
  std::mt19937 random(7);
  for (int round = 0; round < 5000; ++round) {
    std::string lines = fmt::format("{0}\n{0}", kConv2dOp);
    for (auto changes = 1 + random() % 3; changes > 0; --changes) {
      lines[random() % lines.size()] = static_cast<char>(random());
    }
    lines.resize(random() % 4 == 0 ? random() % lines.size() : lines.size());
    (void)what_parse_ops_says(lines);
  }
}

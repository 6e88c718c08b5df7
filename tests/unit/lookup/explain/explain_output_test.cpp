#include "lookup/explain/explain_output.h"

#include <string>

#include <catch2/catch.hpp>

#include "present/html_document.h"

using namespace optrace;
using Catch::Matchers::Contains;

namespace {

constexpr const char* kHostile = "</style><script>\"a\\\" & 'b'\x1b[2J";

// Each text that an index or a query can contain is hostile.
Explanation hostile() {
  Explanation it;
  it.asked = kHostile;
  it.name = std::string("aten::") + kHostile;
  it.spelled.by_way_of = kHostile;
  it.spelled.overloads = {it.name, std::string("aten::x.") + kHostile};
  it.facts.schema = kHostile;
  it.facts.tags = {kHostile};
  it.facts.variants = {"method"};
  it.words = {kHostile};
  OpSchema schema;
  SchemaArgument argument;
  argument.name = argument.type = kHostile;
  argument.default_value = kHostile;
  schema.arguments = schema.returns = {argument};
  it.schema = schema;
  ExplainedKey key;
  key.entry.key = kHostile;
  key.functions.push_back({kHostile, kHostile, kHostile, {kHostile, 1}});
  it.keys = {key};
  ExplainedDerivative derivative;
  derivative.facts.node = derivative.facts.key = kHostile;
  derivative.facts.backward = {{{kHostile}, kHostile, 1}};
  derivative.location = {kHostile, 2};
  derivative.ops = {{kHostile, 3, false}, {kHostile, 4, true}};
  it.derivatives = {derivative};
  StaticPath path;
  PathStep step;
  step.kind = StepKind::op;
  step.op = step.note = kHostile;
  step.location = {kHostile, 5};
  path.steps = {step};
  path.stopped = kHostile;
  it.devices = {{kHostile, "CPU", {path}}};
  return it;
}

}  // namespace

TEST_CASE("a page about an op escapes every text", "[explain]") {
  const std::string page = to_html(hostile(), {kHostile, "", "", true});
  CHECK_THAT(page, !Contains("<script"));
  CHECK_THAT(page, !Contains("\x1b"));
  CHECK_THAT(page,
             Contains("&lt;/style&gt;&lt;script&gt;&quot;a\\&quot; &amp; &#39;b&#39;\\x1b[2J"));
  CHECK(page.find("</style>") == page.rfind("</style>"));
}

TEST_CASE("a graph of an op escapes every text", "[explain]") {
  const std::string graph = to_dot(hostile(), {kHostile, "", "", true}, true);
  CHECK_THAT(graph, !Contains("\x1b"));
  CHECK_THAT(graph, !Contains("<script>\"a"));
  CHECK_THAT(graph, Contains("</style><script>\\\"a\\\\\\\" & 'b'\\\\x1b[2J"));
}

TEST_CASE("a page links only to GitHub", "[explain]") {
  CHECK(linked_text("a<b", "https://github.com/a?\"") ==
        "<a href=\"https://github.com/a?&quot;\">a&lt;b</a>");
  CHECK(linked_text("a", "javascript:alert(1)") == "a");
  CHECK(linked_text("a", "https://github.com.example.org/") == "a");
}

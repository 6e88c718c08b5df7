#include "indexer/wheel/shallow_parser.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

using namespace optrace;

namespace {

const ParsedFunction& function(const ParsedCode& outline, const std::string& name) {
  for (const ParsedFunction& each : outline.functions)
    if (each.name == name) return each;
  FAIL("no function " << name);
  return outline.functions.front();
}

std::vector<std::string> calls(const ParsedFunction& function) {
  std::vector<std::string> made;
  made.reserve(function.calls.size());
  for (const ParsedCall& call : function.calls)
    made.push_back(std::to_string(call.line) + ":" + (call.is_member ? call.receiver + "." : "") +
                   call.name);
  return made;
}

}  // namespace

TEST_CASE("An outline has functions with their scope, parameters, line and calls",
          "[shallow_parser]") {
  const ParsedCode made = parse_shallowly(R"code(#include <ATen/Tensor.h>
namespace at { namespace {
// aten::add(Tensor self) -> Tensor
at::Tensor wrapper_CPU_add(const at::Tensor & self, std::array<bool, 2> mask = {}) {
  structured_add_functional op;
  op.meta(self);  // op.impl(self);
  return at::native::add<float>(self, ")", '(');
}
}  // anonymous
namespace _ops {
at::Tensor conv2d::call(
    const at::Tensor & self) {
    static auto op = create_conv2d_typed_handle();
    return op
      .call(self);
}
}}
)code");
  REQUIRE(made.functions.size() == 2);
  const ParsedFunction& wrapper = function(made, "wrapper_CPU_add");
  CHECK(wrapper.scope == std::vector<std::string>{"at", ""});
  CHECK(wrapper.parameters == 2);
  CHECK(wrapper.line == 4);
  CHECK(calls(wrapper) == std::vector<std::string>{"6:op.meta", "7:at::native::add"});
  CHECK(wrapper.variables ==
        std::vector<std::pair<std::string, std::string>>{{"op", "structured_add_functional"}});
  const ParsedFunction& call = function(made, "conv2d::call");
  CHECK(call.scope == std::vector<std::string>{"at", "_ops"});
  CHECK(call.line == 11);
  CHECK(calls(call) == std::vector<std::string>{"13:create_conv2d_typed_handle", "15:op.call"});
}

TEST_CASE("An outline has classes with their bases, and the methods in them", "[shallow_parser]") {
  const ParsedCode made = parse_shallowly(R"code(
namespace at::native {
struct TORCH_API structured_add : public at::meta::structured_add_Tensor {
  void impl(const at::Tensor & self) { resize(self); }
};
class Plain final {
  int x = 3;
  Plain() : x(4) {}
};
enum class Kind { one, two };
}
)code");
  REQUIRE(made.classes.size() == 2);
  CHECK(made.classes[0].name == "structured_add");
  CHECK(made.classes[0].bases == std::vector<std::string>{"at::meta::structured_add_Tensor"});
  CHECK(made.classes[1].name == "Plain");
  CHECK(function(made, "impl").scope == std::vector<std::string>{"at", "native", "structured_add"});
  CHECK(function(made, "Plain").line == 8);
}

TEST_CASE("An outline has registrations", "[shallow_parser]") {
  const ParsedCode made = parse_shallowly(R"code(
namespace at { namespace {
TORCH_LIBRARY_IMPL(aten, AutogradCPU, m) {
    m.impl("add.Tensor",
TORCH_FN(VariableType::add_Tensor)
);
  m.impl("zeros", torch::autograd::autogradNotImplementedFallback());
}
TORCH_LIBRARY(aten, m) {
  m.def("add.Tensor(Tensor self, *, Scalar alpha=1) -> Tensor", tags_0);
}
}}
)code");
  REQUIRE(made.registrations.size() == 3);
  CHECK(made.registrations[0].library == "aten");
  CHECK(made.registrations[0].key == "AutogradCPU");
  CHECK(made.registrations[0].op == "add.Tensor");
  CHECK(made.registrations[0].function == "VariableType::add_Tensor");
  CHECK(made.registrations[0].line == 4);
  CHECK(made.registrations[1].function.empty());
  CHECK(made.registrations[2].is_definition);
  CHECK(made.registrations[2].key.empty());
}

TEST_CASE("An outline of text that is not C++ ends", "[shallow_parser]") {
  for (const char* const text : {"",
                                 "{",
                                 "}",
                                 "((((",
                                 "namespace {",
                                 "f(",
                                 "R\"(",
                                 "R\"x",
                                 "/*",
                                 "\"",
                                 "'",
                                 "a<b<c(d",
                                 "struct",
                                 "struct {",
                                 "TORCH_LIBRARY(",
                                 "TORCH_LIBRARY_IMPL(a, b, m) { m.impl(\"",
                                 "> (",
                                 ":: (",
                                 "x) { > ( }",
                                 "template < { }",
                                 "#\\\n",
                                 "using namespace",
                                 "}}}{{{((("}) {
    CAPTURE(text);
    CHECK_NOTHROW(parse_shallowly(text));
  }
}

#include "lookup/locate/definition_text.h"

#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "lookup/source_text/highlighted_source.h"

using namespace optrace;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Returns the numbers of the first and the last line of a definition; `none` if there is none.
std::string range(const std::string& text, const Located& located, bool exact = true) {
  const auto found = definition_text(lines_of(text), located, exact);
  if (!found) return "none";
  return std::to_string(found->first) + "-" +
         std::to_string(found->first + found->lines.size() - 1) + (found->moved ? " moved" : "");
}

Located cpp(const std::string& symbol, std::uint32_t line,
            LocatedKind kind = LocatedKind::function) {
  Located located;
  located.kind = kind;
  located.symbol = symbol;
  located.file = "aten/src/ATen/native/A.cpp";
  located.line = line;
  return located;
}

}  // namespace

TEST_CASE("a C++ definition ends with its body", "[definition_text]") {
  const std::string text = R"text(int x;
// Adds.
template <typename T>
static inline Tensor
add(const Tensor& a, const char* s = "}")
{
  // } in a comment, '}' in a character
  auto f = [] { return R"x(})x"; };
  return a;
}
A::A(int n) : a_{n}, b_{1} {
}
DECLARE_DISPATCH(fn, add_stub);
REGISTER_NO_CPU_DISPATCH(add_stub)
void later() {}
)text";
  CHECK(range(text, cpp("_ZN2at6native3addEv", 5)) == "2-10");
  CHECK(range(text, cpp("_ZN1AC1Ei", 11)) == "11-12");
  CHECK(range(text, cpp("_ZN2at6native8add_stubE", 13)) == "13-13");
  CHECK(range(text, cpp("_ZN2at6native8add_stubE", 14)) == "14-14");
  CHECK(range(text, cpp("_Z5laterv", 15)) == "15-15");
}

TEST_CASE("a line of another version leads to the nearest definition", "[definition_text]") {
  const std::string text = R"text(Tensor add(Tensor a);

Tensor mul() {
  return add(b);
}

Tensor add(Tensor a) {
  return a;
}
class Adder : Base {
};
TORCH_IMPL_FUNC(gelu_out_cpu)(const Tensor& a) {
}
)text";
  CHECK(range(text, cpp("_ZN2at6native3addEv", 3), false) == "7-9 moved");
  CHECK(range(text, cpp("_ZN2at6native3addEv", 7), false) == "7-9");
  CHECK(range(text, cpp("_ZN2at6native3addEv", 900), false) == "7-9 moved");
  CHECK(range(text, cpp("_ZTIN2at5AdderE", 1, LocatedKind::type), false) == "10-11 moved");
  CHECK(range(text, cpp("_ZN2at6native23structured_gelu_out_cpu4implEv", 1), false) ==
        "12-13 moved");
  CHECK(range(text, cpp("_ZN2at6native3subEv", 3), false) == "none");
  CHECK(range("", cpp("_ZN2at6native3subEv", 3)) == "none");
}

TEST_CASE("definitions in Python and yaml", "[definition_text]") {
  Located forward;
  forward.kind = LocatedKind::python_function;
  forward.name = "torch.nn.A.forward";
  forward.file = "torch/nn/a.py";
  forward.line = 3;
  const std::string text = R"text(class A:
    @property
    def forward(self):
        return '''
text
'''

    def backward(self):
        pass
)text";
  CHECK(range(text, forward) == "2-6");
  forward.line = 1;
  CHECK(range(text, forward, false) == "2-6 moved");
  Located op;
  op.kind = LocatedKind::op;
  op.name = "aten::add.Tensor";
  op.file = "aten/src/ATen/native/native_functions.yaml";
  op.line = 1;
  CHECK(range("- func: add.Tensor(Tensor a)\n  tags: core\n\n- func: b()\n", op) == "1-2");
}

TEST_CASE("the colours of source code end with each line", "[definition_text]") {
  const TerminalStyle colours{.colour = true};
  const auto lines = highlighted({"/* a", "b */ if (x == \"s\") #"}, SourceLanguage::cpp, colours);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == colours.paint("/* a", "2"));
  CHECK(lines[1] == colours.paint("b */", "2") + " " + colours.paint("if", "35") +
                        " (x == " + colours.paint("\"s\"", "32") + ") #");
  const std::vector<std::string> hostile = {"x = '\x1b[2J'  # \xff", "\"\"\"", "R\"(", "'"};
  for (const auto language : {SourceLanguage::cpp, SourceLanguage::python, SourceLanguage::yaml}) {
    const auto plain = highlighted(hostile, language, {});
    CHECK(plain.size() == hostile.size());
    CHECK(plain[0] == "x = '\\x1b[2J'  # \\xff");
  }
}

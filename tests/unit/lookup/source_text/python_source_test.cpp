#include "lookup/source_text/python_source.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

using namespace optrace;

namespace {

using Names = std::vector<std::string>;

// Returns the full names of the name that ends at the end of the text.
Names names_at_end(const std::string& text) {
  const optrace::PythonSource source(text);
  std::size_t line = 0;
  for (const char c : text) line += c == '\n' ? 1 : 0;
  const auto name = source.name_at(line, text.size());
  return name ? source.full_names(*name) : Names{"none"};
}

}  // namespace

TEST_CASE("names are resolved by the imports of a file", "[python_source]") {
  CHECK(names_at_end("import torch\ntorch.matmul") == Names{"torch.matmul"});
  CHECK(names_at_end("import torch.nn.functional as F\nF.conv2d") ==
        Names{"torch.nn.functional.conv2d"});
  CHECK(names_at_end("import torch.nn.functional\ntorch.add") == Names{"torch.add"});
  CHECK(names_at_end("from torch import nn, optim as o\no.SGD") == Names{"torch.optim.SGD"});
  CHECK(names_at_end("from torch import (nn,  # x\n  optim,\n)\nnn.Linear") ==
        Names{"torch.nn.Linear"});
  CHECK(names_at_end("from torch import \\\n  nn\nnn.Linear") == Names{"torch.nn.Linear"});
  CHECK(names_at_end("def f():\n  import torch as t; t.add") == Names{"torch.add"});
  CHECK(names_at_end("try: from torch import nn\nexcept: pass\nnn") == Names{"torch.nn"});
  CHECK(names_at_end("from torch import *\nadd") == Names{"torch.add"});
  CHECK(names_at_end("from . import nn\nnn.Linear") == Names{"torch.Tensor.Linear"});
  // The last import counts, and those below an open bracket do, too.
  CHECK(names_at_end("import torch as a\nimport numpy as a\na.add") == Names{"numpy.add"});
  CHECK(names_at_end("print(1,\nimport torch as t\nt.add") == Names{"torch.add"});
}

TEST_CASE("attributes of other things may be methods of tensors", "[python_source]") {
  CHECK(names_at_end("x.add_") == Names{"torch.Tensor.add_"});
  CHECK(names_at_end("self.weight.add_") == Names{"torch.Tensor.add_"});
  CHECK(names_at_end("import torch\nf(torch.x)[0].add_") == Names{"torch.Tensor.add_"});
  CHECK(names_at_end("import torch\n(f(torch.x).\nadd_") == Names{"torch.Tensor.add_"});
  CHECK(names_at_end("'torch'.join") == Names{"torch.Tensor.join"});
  CHECK(names_at_end("x").empty());
}

TEST_CASE("strings, comments, numbers and keywords have no names", "[python_source]") {
  for (const char* const text : {"# torch.add", "'torch.add", "f'{torch.add", "'''\ntorch.add",
                                 "r'\\'torch.add", "1e5", "0xadd", "import", "", "\n", "'a\\\nb"})
    CHECK(names_at_end(text) == Names{"none"});
  CHECK(names_at_end("'import torch as t'\nt.add") == Names{"torch.Tensor.add"});
  CHECK(names_at_end("'unfinished\nx.add") == Names{"torch.Tensor.add"});
  CHECK(names_at_end("r'\\' # \n; x.add'\nx.mul") == Names{"torch.Tensor.mul"});
}

TEST_CASE("a position inside of a name selects its parts up to there", "[python_source]") {
  const optrace::PythonSource source("a.bc.d");
  const auto name = source.name_at(0, 3);
  REQUIRE(name);
  CHECK(name->parts == Names{"a", "bc"});
  CHECK(name->begin == 2);
  CHECK(name->end == 4);
  CHECK(source.name_at(0, 2)->parts == Names{"a", "bc"});
  CHECK(source.name_at(0, 99)->parts == Names{"a", "bc", "d"});
  CHECK_FALSE(source.name_at(1, 0));
}

TEST_CASE("a block ends before the next line that is not deeper", "[python_source]") {
  const PythonSource source(
      "def f(a,\n      b):\n    \"\"\"text\nat the margin\n\"\"\"\n    return g(\n1)\n\n# comment\n"
      "def h(): pass\n");
  CHECK(source.end_of_block(0) == 7);
  CHECK(source.end_of_block(9) == 10);
  CHECK(source.end_of_block(1) == 1);  // A continued line begins nothing.
  CHECK(source.end_of_block(50) == 50);
}

TEST_CASE("calls have their names and lines", "[python_source]") {
  const PythonSource source(
      "def f(self):\n  self.a = nn.Linear(1)\n  super().f(x)\n  call = _fast\n  if (x): "
      "y.z[0].add(1)\n"
      "  print('g()')  # h()\n");
  std::vector<std::string> found;
  for (const PythonCallInText& call : source.calls(0, 6))
    found.push_back(std::to_string(call.line) + " " + call.name.parts.front() + "." +
                    call.name.parts.back() + " " + call.attribute +
                    (call.through_variable ? "variable" : ""));
  CHECK(found == std::vector<std::string>{"1 nn.Linear a", "2 super.super ", "2 super.f ",
                                          "3 _fast._fast variable", "4 add.add ",
                                          "5 print.print "});
}

TEST_CASE("definitions have the names that Python gives them", "[python_source]") {
  const PythonSource source(
      "def f(a,\n  b):\n  'def no(): pass'\n  if a:\n    def g(): pass\n  async def h(): pass\n"
      "class A:\n  @d\n  def m(self): class_ = 1\n  class B: pass\nasync def i(): pass\n");
  CHECK(source.definitions() ==
        std::vector<std::string>{"f", "f.<locals>.g", "f.<locals>.h", "A", "A.m", "A.B", "i"});
}

TEST_CASE("relative imports are those of the package", "[python_source]") {
  const std::string text =
      "from .. import functional as F\nfrom .conv import Conv\nF.pad()\nConv()\n";
  const PythonSource source(text, "torch.nn.modules");
  const auto calls = source.calls(0, 4);
  REQUIRE(calls.size() == 2);
  CHECK(source.full_names(calls[0].name) == std::vector<std::string>{"torch.nn.functional.pad"});
  CHECK(source.full_names(calls[1].name) == std::vector<std::string>{"torch.nn.modules.conv.Conv"});
  const PythonSource outside(text);
  CHECK(outside.full_names(outside.calls(0, 4)[1].name).empty());
}

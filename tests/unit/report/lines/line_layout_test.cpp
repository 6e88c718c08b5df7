#include "report/lines/line_layout.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/unit/report/written_report.h"

using namespace optrace;

namespace {

FrameLine line(const std::string& name, const std::string& location = "") {
  FrameLine made;
  made.layer = Layer::kernel;
  made.name = name;
  made.location = location;
  return made;
}

}  // namespace

TEST_CASE("locations begin in the same column", "[line_layout]") {
  CHECK(lay_out({line("a", "x.cpp:1"), line("longer", "y.cpp:2"), line("and this has no location")},
                {}, 0) ==
        "kernel      a       x.cpp:1\n"
        "kernel      longer  y.cpp:2\n"
        "kernel      and this has no location\n");
}

TEST_CASE("a long name runs over its column", "[line_layout]") {
  const std::string name(80, 'n');
  CHECK(lay_out({line(name, "x.cpp:1"), line("a", "y.cpp:2")}, {}, 0) ==
        "kernel      " + name + "  x.cpp:1\n" + "kernel      a" + std::string(57, ' ') +
            "y.cpp:2\n");
}

TEST_CASE("lines keep within the width", "[line_layout]") {
  std::vector<FrameLine> lines{line(std::string(80, 'n'), "a/b/c/d/e/f/g/h/i/j/file.cpp:12345")};
  lines.back().call = "called at :549";
  lines.back().times = "×12";
  const std::string text = lay_out(lines, {}, 80);
  CHECK(columns(text) <= 81);  // And the end of the line.
  CHECK(text.find("/file.cpp:12345") != std::string::npos);
  CHECK(text.find("called at :549  ×12") != std::string::npos);
}

TEST_CASE("a divider has no layer, and a reason is on a line of its own", "[line_layout]") {
  FrameLine divider = line("thread 7");
  divider.divider = true;
  FrameLine op = line("aten::add");
  op.below = "│  ";
  op.why = "→ CPU";
  CHECK(lay_out({divider, op}, {}, 0) ==
        "            thread 7\n"
        "kernel      aten::add\n"
        "            │  ↳ → CPU\n");
}

#include "src/tree_browser/tree_model.h"

#include <algorithm>
#include <clocale>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "platform/error.h"
#include "src/tree_browser/frame_details.h"
#include "src/tree_browser/keys.h"
#include "src/tree_browser/screen_text.h"
#include "src/tree_browser/text_page.h"
#include "tests/unit/report/frames.h"

using namespace optrace;

namespace {

using optrace::test::list;

Frame frame(std::string name, Layer layer, std::vector<Frame> children = {},
            std::uint64_t time = 0) {
  Frame made;
  made.name = std::move(name);
  made.layer = layer;
  made.children = std::move(children);
  if (time != 0) made.time = optrace::FrameTime{time};
  return made;
}

Frame python(std::string name, std::string file, std::vector<Frame> children = {}) {
  Frame made = frame(std::move(name), Layer::python, std::move(children));
  made.source = FrameSource{.file = std::move(file), .line = 3, .call_line = {}, .url = {}};
  return made;
}

Frame op_frame(const std::string& op, std::vector<Frame> children = {}, std::uint64_t time = 0) {
  Frame made = frame("at::_ops::" + op + "::call", Layer::dispatcher, std::move(children), time);
  made.op = "aten::" + op;
  made.detail.edit().dispatch = DispatchDetail();
  return made;
}

// step > [short, long > [a, b > c]] > tail
Report sample() {
  Report report;
  report.roots = list(frame(
      "step", Layer::python,
      list(frame("short", Layer::kernel, {}, 10),
           frame("long", Layer::binding,
                 list(frame("a", Layer::kernel, {}, 5),
                      frame("b", Layer::runtime, list(frame("c", Layer::kernel, {}, 20)), 25)),
                 30))));
  report.roots.push_back(frame("tail", Layer::python));
  return report;
}

// The rows as text: two columns for each level, then the name.
std::vector<std::string> shown(const TreeModel& model) {
  std::vector<std::string> lines;
  for (const TreeRow& row : model.rows()) {
    std::string line;
    for (std::size_t level = 0; level < row.indent; ++level) {
      const bool innermost = level + 1U == row.indent && row.joint != TreeRow::Joint::none;
      if (innermost)
        line += row.joint == TreeRow::Joint::last ? "`-" : "+-";
      else
        line += ((row.lines >> level) & 1U) != 0 ? "| " : "  ";
    }
    lines.push_back(line + model.frames().frame(row.frame).name);
  }
  return lines;
}

using Lines = std::vector<std::string>;

void go_to(TreeModel& model, const std::string& name) {
  for (std::size_t row = 0; row < model.rows().size(); ++row)
    if (model.frames().frame(model.rows()[row].frame).name == name) return model.select(row);
  FAIL("no row " << name);
}

std::string selected(const TreeModel& model) {
  return model.frames().frame(model.selected_frame()).name;
}

}  // namespace

TEST_CASE("the calls of a frame that makes several are indented", "[tree_browser]") {
  const Report report = sample();
  const TreeModel model(report);
  CHECK(shown(model) == Lines{"step", "+-short", "`-long", "  +-a", "  `-b", "    c", "tail"});
}

TEST_CASE("folding takes rows away, and unfolding brings them back", "[tree_browser]") {
  const Report report = sample();
  TreeModel model(report);
  go_to(model, "long");
  model.fold();
  CHECK(shown(model) == Lines{"step", "+-short", "`-long", "tail"});
  CHECK(selected(model) == "long");
  model.unfold();
  CHECK(shown(model) == Lines{"step", "+-short", "`-long", "  +-a", "  `-b", "    c", "tail"});
  go_to(model, "b");
  model.fold();
  go_to(model, "step");
  model.fold();
  CHECK(shown(model) == Lines{"step", "tail"});
  model.unfold();  // b is still folded.
  CHECK(shown(model) == Lines{"step", "+-short", "`-long", "  +-a", "  `-b", "tail"});
  model.set_all_below(true);
  CHECK(model.rows().size() == 7);
  model.set_all_below(false);
  model.unfold();
  CHECK(shown(model) == Lines{"step", "+-short", "`-long", "tail"});
  go_to(model, "tail");
  model.unfold();
  model.fold();
  model.select_caller();
  CHECK(selected(model) == "tail");
  model.select(100);
  CHECK(model.selected() == 3);
}

TEST_CASE("unfolding goes on to the next frame with several calls", "[tree_browser]") {
  Report report;
  report.roots = list(
      frame("r", Layer::python,
            list(frame("x", Layer::python,
                       list(frame("y", Layer::python,
                                  list(frame("1", Layer::python), frame("2", Layer::python))))))));
  TreeModel model(report);
  model.set_all_below(false);
  model.unfold();
  CHECK(shown(model) == Lines{"r", "x", "y", "+-1", "`-2"});
}

TEST_CASE("the calls of a hidden frame move up", "[tree_browser]") {
  const Report report = sample();
  TreeModel model(report);
  go_to(model, "b");
  model.show(Layer::runtime, false);
  CHECK(shown(model) == Lines{"step", "+-short", "`-long", "  +-a", "  `-c", "tail"});
  model.show(Layer::binding, false);
  CHECK(shown(model) == Lines{"step", "+-short", "+-a", "`-c", "tail"});
  model.show(Layer::python, false);
  CHECK(shown(model) == Lines{"short", "a", "c"});
  model.show(Layer::kernel, false);
  CHECK(model.rows().empty());
  CHECK(model.selected_frame() == kNoFrame);
  model.unfold();
  model.fold();
  model.set_all_below(true);
  model.select_caller();
  CHECK_FALSE(model.find(FrameSearch("step", false), true));
  model.show_all_layers();
  CHECK(model.rows().size() == 7);
}

TEST_CASE("a report without frames is an empty tree", "[tree_browser]") {
  const Report report;
  TreeModel model(report);
  model.set_order(ChildOrder::time);
  model.set_user_code_only(true);
  model.unfold();
  model.select(1);
  CHECK(model.rows().empty());
  CHECK_FALSE(model.find(FrameSearch("x", false), true));
}

TEST_CASE("calls are ordered by time, and the selection stays", "[tree_browser]") {
  const Report report = sample();
  TreeModel model(report);
  go_to(model, "a");
  model.set_order(ChildOrder::time);
  CHECK(shown(model) == Lines{"step", "+-long", "| +-b", "| | c", "| `-a", "`-short", "tail"});
  CHECK(selected(model) == "a");
  go_to(model, "b");
  model.fold();
  model.set_order(ChildOrder::call);
  CHECK(shown(model) == Lines{"step", "+-short", "`-long", "  +-a", "  `-b", "tail"});
}

TEST_CASE("a search looks below folded frames and around the end", "[tree_browser]") {
  const Report report = sample();
  TreeModel model(report);
  model.set_all_below(false);
  CHECK(model.find(FrameSearch("C", true), true) == false);  // Upper case counts.
  CHECK(model.find(FrameSearch("^c$", true), true));
  CHECK(selected(model) == "c");
  CHECK(shown(model).size() == 7);
  CHECK(model.find(FrameSearch("s", false), true));
  CHECK(selected(model) == "step");
  CHECK(model.find(FrameSearch("t", false), false));
  CHECK(selected(model) == "tail");
  CHECK_THROWS_AS(FrameSearch("(", true), Error);
  CHECK(FrameSearch("(", false).matches("f("));
}

TEST_CASE("own code is that of the program, and the ops that it calls", "[tree_browser]") {
  Report report;
  report.roots = list(python(
      "main", "/w/train.py",
      list(python(
          "torch.nn.Module.forward", "torch/nn/module.py",
          list(op_frame("conv2d", list(op_frame("convolution"),
                                       python("hook", "/w/train.py", list(op_frame("add"))))))))));
  TreeModel model(report);
  model.set_user_code_only(true);
  model.set_all_below(true);
  CHECK(shown(model) == Lines{"main", "at::_ops::conv2d::call", "hook", "at::_ops::add::call"});
  model.set_user_code_only(false);
  CHECK(model.rows().size() == 6);
  report.roots[0].children[0].source.edit().call_line = 9;
  const FrameList frames(report);
  CHECK(frames.program_line(2)->file == "/w/train.py");
  CHECK(frames.program_line(2)->line == 9);
  CHECK_FALSE(frames.program_line(0));
}

TEST_CASE("half a million frames are browsed without delay", "[tree_browser]") {
  Report report;
  for (int i = 0; i < 50; ++i) {
    Frame root = frame("root", Layer::python);
    for (int k = 0; k < 100; ++k) {
      Frame middle = frame("middle", Layer::binding);
      for (int n = 0; n < 100; ++n) middle.children.push_back(frame("leaf", Layer::kernel, {}, 1));
      root.children.push_back(std::move(middle));
    }
    report.roots.push_back(std::move(root));
  }
  TreeModel model(report);
  CHECK(model.frames().size() == 505050);
  for (std::size_t root = 0; root < 50; ++root) {
    model.select(model.rows().size() - 1);
    while (model.frames().above(model.selected_frame()) != kNoFrame) model.select_caller();
    model.set_all_below(root % 2 == 0);
  }
  CHECK_FALSE(model.find(FrameSearch("nothing", false), true));
}

TEST_CASE("a tree deeper than any stack is browsed", "[tree_browser]") {
  Report report;
  report.roots = list(frame("0", Layer::python));
  Frame* innermost = &report.roots[0];
  for (int depth = 1; depth < 100000; ++depth) {
    innermost->children = list(frame("f", Layer::python), frame("g", Layer::kernel));
    innermost = &innermost->children[0];
  }
  TreeModel model(report);
  model.set_all_below(true);
  CHECK(model.rows().size() == 199999);
  CHECK(model.rows()[199998].indent == 1);
  CHECK(model.rows()[99999].indent == TreeModel::kMaxIndent);
  model.set_order(ChildOrder::time);
  model.fold();
  CHECK(model.rows().size() == 1);
}

TEST_CASE("details have the report's words and the JSON's names", "[tree_browser]") {
  const Report report;
  const Frame parent = python("f", "/w/a.py");
  Frame op = op_frame("conv2d", {}, 2000);
  op.source = FrameSource{.file = "x.cpp", .line = 7, .call_line = 3, .url = "https://u"};
  DispatchDetail& dispatch = op.detail.edit().dispatch.edit();
  dispatch.choice.dispatch_key = "CPU";
  dispatch.arguments = {{"weight", {}}, {"\x1b[2J", {}}};
  std::string text;
  for (const FrameFact& fact : frame_details(op, &parent, report))
    text += fact.label + "=" + fact.value + "\n";
  for (const std::string line :
       {"op=aten::conv2d", "source=x.cpp:7", "called at=/w/a.py:3",
        "calls=1 in 2 µs, of which 2 µs in the frame itself", "dispatch_key=CPU", "step=call",
        "arguments={\"name\":\"weight\",\"value\":null}"})
    CHECK_THAT(text, Catch::Contains(line + "\n"));
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("text is fitted to columns of the terminal", "[tree_browser]") {
  const auto text = [](std::string_view given, std::size_t limit, CharacterSet characters) {
    const ScreenText fitted = screen_text(given, limit, characters);
    CHECK(fitted.columns <= limit);
    return fitted.text;
  };
  using enum CharacterSet;
  REQUIRE(std::setlocale(LC_CTYPE, "C.UTF-8") != nullptr);
  CHECK(locale_characters() == unicode);
  CHECK(text("abc", 3, unicode) == L"abc");
  CHECK(text("abcd", 3, unicode) == L"ab…");
  CHECK(text("中文字", 6, unicode) == L"中文字");
  CHECK(text("中文字", 5, unicode) == L"中文…");
  CHECK(text("中文字", 4, unicode) == L"中…");
  CHECK(text("e\xcc\x81", 9, unicode) == L"e\\u0301");  // A combining accent.
  CHECK(text("\x1b[2J\xff", 20, unicode) == L"\\x1b[2J\\xff");
  CHECK(text("x", 0, unicode).empty());
  CHECK(text("├─×…", 20, ascii) == L"|-x...");
  CHECK(text("中", 20, ascii) == L"\\u4e2d");
  CHECK(text("abcdef", 5, ascii) == L"ab...");
  CHECK(text("abcdef", 2, ascii) == L"ab");
  std::setlocale(LC_CTYPE, "C");
  CHECK(locale_characters() == ascii);
  CHECK(wrapped_line("中文字", 2) == Lines{"中文", "字"});
  CHECK(wrapped_line("", 2) == Lines{""});
  CHECK(wrapped_line("ab cdef", 5, 2) == Lines{"ab cd", "  ef"});
  CHECK(wrapped_line("ab cdef", 4, 2) == Lines{"ab c", "def"});
}

TEST_CASE("each key has one meaning, and the help lists it", "[tree_browser]") {
  std::vector<Key> all;
  for (const KeyBinding& binding : key_bindings()) {
    for (const Key& key : binding.codes) {
      CHECK(std::ranges::find(all, key) == all.end());
      CHECK(binding_of(key) == &binding);
      all.push_back(key);
    }
  }
  CHECK(key_help().size() + 1 == key_bindings().size());
  CHECK(binding_of({.character = L'z'}) == nullptr);
  CHECK(TextLook::of_sgr("1;31").bold);
  CHECK(TextLook::of_sgr("1;31").colour == 1);
  CHECK(TextLook::of_sgr("2").dim);
}

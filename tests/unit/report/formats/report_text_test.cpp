#include <algorithm>
#include <sstream>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "present/terminal_text.h"
#include "report/model/report.h"
#include "tests/unit/report/frames.h"
#include "tests/unit/report/written_report.h"
#include "tests/unit/trace_builder.h"
#include "tracer/trace/trace_meta_json.h"

using Catch::Contains;
using optrace::columns;
using optrace::Frame;
using optrace::FrameSource;
using optrace::Layer;
using optrace::printable;
using optrace::Report;
using optrace::ReportTextOptions;
using optrace::test::frame;

namespace {

Report conv2d_report() {
  Report report;
  report.torch.version = "2.6.0+cu124";
  report.torch.git_version = "1eba9b3aa3c43f86f4a2c807ac8e12c4";
  report.device = "cpu";
  report.source_version = "2.6.0";
  report.source_of_torch = report.source_exact = true;
  report.recording.op = "conv2d";
  report.recording.call = "torch.nn.Conv2d(3, 16, 3)(input)";
  report.recording.python = "3.11.7";
  report.recording.inputs = {{"input", optrace::Sizes{4, 3, 56, 56}, "torch.float32"}};
  report.recording.warnings = {"something is missing"};
  report.threads = 1;
  Frame forward = frame(Layer::python, "torch.nn.modules.conv.Conv2d.forward");
  forward.source = FrameSource{"torch/nn/modules/conv.py", 553, {}, "https://github.com/x#L553"};
  Frame call = frame(Layer::dispatcher, "at::_ops::conv2d::call");
  call.op = "aten::conv2d";
  call.detail.edit().dispatch = optrace::DispatchDetail();
  call.source = FrameSource{"build/aten/src/ATen/Operators_2.cpp", 10, 549U, ""};
  Frame kernel = frame(Layer::kernel, "at::native::(anonymous namespace)::conv2d");
  Frame execute = frame(Layer::library, "dnnl_primitive_execute");
  execute.detail.edit().library = "oneDNN";
  execute.detail.edit().implementation = "cpu::x64::jit_avx2";
  execute.calls = 2;
  kernel.children.push_back(frame(Layer::runtime, "first"));
  kernel.children.push_back(std::move(execute));
  call.children.push_back(std::move(kernel));
  forward.children.push_back(std::move(call));
  report.roots.push_back(std::move(forward));
  return report;
}

}  // namespace

TEST_CASE("the tree says what was traced, the frames, and what to try next", "[report_text]") {
  const std::string text = to_text(conv2d_report(), {});
  CHECK_THAT(text, Contains("torch.nn.Conv2d(3, 16, 3)(input)"));
  CHECK_THAT(text, Contains("2.6.0+cu124 (git 1eba9b3a) on cpu, Python 3.11.7"));
  CHECK_THAT(text, Contains("input  4×3×56×56 float32"));
  CHECK_THAT(text, Contains("the commit that was traced"));
  CHECK_THAT(text, Contains("something is missing"));
  CHECK_THAT(text, Contains("Conv2d.forward"));
  CHECK_THAT(text, Contains("torch/nn/modules/conv.py:553"));
  CHECK_THAT(text, Contains("aten::conv2d  call"));
  CHECK_THAT(text, Contains("called at :549"));
  CHECK_THAT(text, Contains("├─ first"));
  CHECK_THAT(text, Contains("└─ dnnl_primitive_execute"));
  CHECK_THAT(text, Contains("×2"));
  CHECK_THAT(text, Contains("1 op dispatched, 1 kernel, 2 library calls (oneDNN), 4 deep"));
  CHECK_THAT(text, Contains("optrace conv2d --backward"));
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find('~') == std::string::npos);
}

TEST_CASE("the header names a Python that was found elsewhere", "[report_text]") {
  Report report = conv2d_report();
  CHECK_THAT(to_text(report, {}), !Contains(", from "));
  report.recording.interpreter = "/venv/bin/python";
  report.recording.interpreter_from = "$VIRTUAL_ENV";
  CHECK_THAT(to_text(report, {}), Contains("python      /venv/bin/python, from $VIRTUAL_ENV\n"));
}

TEST_CASE("what to try next has the options that were given", "[report_text]") {
  Report report = conv2d_report();
  report.recording.options = {"--device", "cuda", "--dtype", "bfloat16", "--shape", "weight=2x3"};
  ReportTextOptions options;
  const std::string same = "optrace conv2d --device cuda --dtype bfloat16 --shape weight=2x3";
  const std::string text = to_text(report, options);
  CHECK_THAT(text, Contains(same + " --backward ") && Contains(same + " --all ") &&
                       Contains(same + " --format json"));
  options.why = options.times = true;
  CHECK_THAT(to_text(report, options),
             Contains(same + " --why --times --all ") && Contains(same + " --times --format json"));
  // Options that run code or name a file are recommended only to the user who typed them.
  options = {};
  report.recording.options = {"--input", "torch.randn(2, 3), 'x'"};
  CHECK_THAT(to_text(report, options), !Contains("try  "));
  options.own_trace = true;
  CHECK_THAT(to_text(report, options),
             Contains(R"(optrace conv2d --input 'torch.randn(2, 3), '\''x'\''' --backward)"));
  options.own_trace = false;
  const nlohmann::json no_text = {{"options", {7}}};
  for (const std::vector<std::string>& hostile :
       std::vector<std::vector<std::string>>{{"-o", "plain"},
                                             {"--trace=plain"},
                                             optrace::trace_meta_of(no_text).options,
                                             {"--shape", "$(x)"},
                                             {"--python", "x"}}) {
    report.recording.options = hostile;
    CHECK_THAT(to_text(report, options), !Contains("try  "));
  }
}

TEST_CASE("lines of another version are marked, Python's own are not", "[report_text]") {
  Report report = conv2d_report();
  report.source_of_torch = report.source_exact = false;
  report.roots[0].children[0].source.edit().approximate = optrace::LineInterval();
  const std::string text = to_text(report, {});
  CHECK_THAT(text, Contains("Operators_2.cpp:~10"));
  CHECK_THAT(text, Contains("torch/nn/modules/conv.py:553"));
  CHECK_THAT(text, Contains("called at :549"));  // A line of the Python file.
  CHECK_THAT(text, Contains("not the traced version"));
}

TEST_CASE("lines from debug info are not marked", "[report_text]") {
  Report report = conv2d_report();
  report.source_exact = false;
  Frame& call = report.roots[0].children[0];
  FrameSource& source = call.children[0].source.edit();
  source = FrameSource{"/home/me/conv.cpp", 17, 12U, ""};
  source.debug_info = true;
  source.call_approximate = optrace::LineInterval();
  FrameSource& called = call.children[0].children[0].source.edit();
  called = FrameSource{"aten/x.cpp", 5, 21U, ""};
  called.approximate = optrace::LineInterval();
  call.children[0].detail.edit().inlined = true;
  const std::string text = to_text(report, {});
  CHECK_THAT(text, Contains("conv2d  inlined"));
  CHECK_THAT(text, Contains("/home/me/conv.cpp:17 ") && Contains("called at :~12\n"));
  CHECK_THAT(text, Contains("aten/x.cpp:~5 ") && Contains("called at :21\n"));
}

TEST_CASE("columns tell calls of one line apart, and are not shown elsewhere", "[report_text]") {
  Report report = conv2d_report();
  std::vector<Frame>& calls = report.roots[0].children;
  calls[0].source.edit().call_range = optrace::CallRange{11, 549, 20};
  CHECK_THAT(to_text(report, {}), Contains("called at :549") && !Contains(":549:"));
  calls.push_back(std::move(conv2d_report().roots[0].children[0]));
  calls[1].source.edit().call_range = optrace::CallRange{24, 549, 33};
  CHECK_THAT(to_text(report, {}), Contains("called at :549:11") && Contains("called at :549:24"));
}

TEST_CASE("colours and links come only when asked for", "[report_text]") {
  ReportTextOptions options;
  options.style.colour = true;
  const std::string coloured = to_text(conv2d_report(), options);
  CHECK_THAT(coloured, Contains("\x1b[36m"));
  CHECK(coloured.find("\x1b]8;;") == std::string::npos);
  options.style.links = std::make_shared<optrace::FileLinks>(optrace::HyperlinkFormat("default"));
  CHECK_THAT(to_text(conv2d_report(), options),
             Contains("\x1b]8;;https://github.com/x#L553\x1b\\"));
}

TEST_CASE("a tree keeps within the terminal's width", "[report_text]") {
  Report report = conv2d_report();
  report.roots[0].children[0].children[0].name = std::string(300, 'k');
  report.roots[0].children[0].source.edit().file = "aten/" + std::string(100, 'd') + "/file.cpp";
  ReportTextOptions options;
  options.width = 100;
  std::istringstream lines(to_text(report, options));
  for (std::string line; std::getline(lines, line);)
    if (line.find("optrace") == std::string::npos) CHECK(columns(line) <= 100);
}

TEST_CASE("what comes from a trace can't drive the terminal", "[report_text]") {
  CHECK(printable("\x1b[31mred") == "\\x1b[31mred");
  CHECK(printable("a\nb\x7f") == "a\\x0ab\\x7f");
  CHECK(printable("\xc2\x9b") == "\\x9b");
  CHECK(printable("\xe2\x80\xae") == "\\u202e");
  CHECK(printable("\xff\xc3") == "\\xff\\xc3");
  CHECK(printable("\xe4\xb8\xad ×") == "\xe4\xb8\xad ×");

  Report report = conv2d_report();
  const std::string hostile = "\x1b]8;;https://evil\x1b\\\r\n\xe2\x80\xae";
  report.recording.call = report.recording.op = report.recording.python = hostile;
  report.recording.interpreter = report.recording.interpreter_from = hostile;
  report.recording.options = report.recording.warnings = {hostile};
  report.recording.inputs = {{hostile, std::nullopt, hostile}};
  report.torch.version = hostile;
  report.roots[0].name = hostile;
  report.roots[0].source.edit().file = hostile;
  report.roots[0].source.edit().url = "https://x/" + hostile;
  report.roots[0].detail.edit().implementation = hostile;
  report.roots[0].detail.edit().python_name = hostile;
  ReportTextOptions options;
  options.style.links = std::make_shared<optrace::FileLinks>(optrace::HyperlinkFormat("default"));
  options.own_trace = true;
  const std::string text = to_text(report, options);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find('\r') == std::string::npos);
  CHECK(text.find("\xe2\x80\xae") == std::string::npos);
}

TEST_CASE("rendering follows the format", "[report_text]") {
  optrace::TraceBuilder t;
  t.enter(t.function("_ZN2at6native3addEv"), optrace::kNone, 1000);
  ReportTextOptions options;
  options.style.colour = true;
  CHECK_THAT(render(t.trace, nullptr, "text", options), Contains("\x1b[1moptrace report"));
  CHECK(render(t.trace, nullptr, "json", options).starts_with("{\"schema\""));
}

#include "report/check/check.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "indexer/store/index_writer.h"
#include "indexer/store/op_facts.h"
#include "platform/error.h"
#include "platform/files/private_folder.h"
#include "report/check/formats/check_output.h"
#include "report/check/rule_kinds.h"
#include "report/compare/baseline.h"
#include "report/job/join.h"
#include "report/merge/merge.h"
#include "tests/unit/index_file.h"
#include "tests/unit/report/frames.h"
#include "tests/unit/report/written_report.h"
#include "tests/unit/small_library.h"

using namespace optrace;
using namespace optrace::test;
using Status = CheckResult::Status;

namespace {

constexpr const char* kHostileName = "</failure><script>\"'&\x01\x1b[31m%0A,:\xff";

Frame op(const std::string& name, const std::string& dtype, const std::string& device) {
  Frame made = call("aten::" + name).argument("self", tensor(dtype, {2}, device));
  made.name = "at::_ops::" + name + "::call";
  dispatch_of(made).choice.key_set = {device == "cpu" ? "CPU" : "CUDA"};
  return made;
}

Report empty_report() {
  Report report;
  report.torch.version = "2.6.0";
  report.device = "cuda";
  return report;
}

/// Returns Conv2d.forward > aten::conv2d > at::native::conv<int> > cudnnBackendExecute, an implicit
/// copy to the CPU, and a failed cudaMalloc.
Report convolution_report() {
  Report report = empty_report();
  Frame work = frame(Layer::library, "cudnnBackendExecute", 3);
  work.detail.edit().library = "cuDNN";
  Frame kernel = frame(Layer::kernel, "at::native::conv<int>", 3);
  kernel.children.push_back(std::move(work));
  Frame conv = op("conv2d", "float16", "cuda:0");
  conv.calls = 3;
  conv.children.push_back(std::move(kernel));
  Frame copy = op("copy_", "float32", "cpu");
  dispatch_of(copy).arguments->push_back({"src", tensor("float32", {2}, "cuda:0")});
  Frame failed = frame(Layer::library, "cudaMalloc");
  LibraryCall& call_ = failed.detail.edit().calls.emplace_back();
  call_.kind = "failed";
  call_.error = 2;
  call_.calls = 5;
  Frame python = frame(Layer::python, "torch.nn.modules.conv.Conv2d.forward");
  python.source = FrameSource{"model.py", 7, {}, {}};
  python.children.push_back(std::move(conv));
  python.children.push_back(std::move(copy));
  python.children.push_back(std::move(failed));
  report.roots.push_back(std::move(python));
  return report;
}

TraceFunction native(const char* symbol, bool probed) {
  TraceFunction function;
  function.symbol = symbol;
  function.probed = probed;
  return function;
}

CheckResult one(const Report& report, const std::string& rule, const CheckOptions& options = {}) {
  std::vector<CheckResult> results =
      check(report, KnownNames({}, nullptr), {parse_rule(rule)}, options);
  REQUIRE(results.size() == 1);
  return std::move(results[0]);
}

std::string usage_error(const std::string& rule) {
  try {
    parse_rule(rule);
  } catch (const Error& error) {
    CHECK(error.status() == ExitStatus::usage);
    CHECK_FALSE(error.remedy().empty());
    return error.what();
  }
  return "no error";
}

class RuleFile {
 public:
  explicit RuleFile(const std::string& text) { std::ofstream(path(), std::ios::binary) << text; }
  std::filesystem::path path() const { return folder_.path() / "rules.yaml"; }
  std::string error() const {
    try {
      read_rules(path());
    } catch (const Error& error) {
      CHECK(error.status() == ExitStatus::usage);
      CHECK_FALSE(error.remedy().empty());
      return error.what();
    }
    return "no error";
  }

 private:
  PrivateFolder folder_;
};

}  // namespace

TEST_CASE("a call that asks for the size of a workspace is none", "[check]") {
  Report report;
  Frame qr = frame(Layer::library, "sgeqrf_", 5);
  qr.detail.edit().workspace_queries = 2;
  report.roots.push_back(std::move(qr));
  const CheckOptions any{.allow_unknown = true};
  CHECK(one(report, "library calls == 3").found == "3");
  CHECK(one(report, "calls sgeqrf_ == 3", any).found == "called 3 times");
  report.roots[0].detail.edit().workspace_queries = 9;  // Of a hostile report.
  CHECK(one(report, "calls sgeqrf_ == 3", any).status != Status::passed);
}

TEST_CASE("what was lost or inferred is no ground for a verdict that it could turn", "[check]") {
  Report report = convolution_report();
  report.shortfalls = {{"events_lost", 7}};
  for (const char* rule :
       {"ops <= 100", "never calls aten::conv2d", "calls aten::conv2d == 3",
        "no kernel of dtype float64", "conv2d uses cudnn", "conv2d never uses mkl"}) {
    INFO(rule);
    const CheckResult result = one(report, rule, {.allow_unknown = true});
    const bool failed_anyway = std::string_view(rule) == "never calls aten::conv2d";
    CHECK(result.status == (failed_anyway ? Status::failed : Status::error));
    if (!failed_anyway) {
      CHECK(result.found.find("7 events were lost") != std::string::npos);
      CHECK_FALSE(result.remedy.empty());
    }
  }
  CHECK(one(report, "calls aten::conv2d >= 3").status == Status::passed);
  CHECK(one(report, "calls aten::conv2d >= 4").status == Status::error);
  CHECK(one(report, "ops <= 1").status == Status::failed);

  report = convolution_report();
  report.shortfalls = {{"callers_inferred", 2}};
  CHECK(one(report, "conv2d uses cudnn").status == Status::error);
  CHECK(one(report, "calls aten::conv2d <= 3").status == Status::passed);
}

TEST_CASE("each kind of shortfall leaves the verdicts that it can't turn", "[check]") {
  // The expected verdicts: p for passed, f for failed, ? for unknown.
  struct Case {
    const char* rule;
    const char* nothing;  // Without a shortfall.
    const char *events, *children, *python, *records, *device, *paths, *callers;
  };
  constexpr auto kCases = std::to_array<Case>({
      //                               -    event child pyth  recor devic paths callers
      {"calls aten::conv2d >= 3", "p", "p", "p", "p", "p", "p", "p", "p"},
      {"calls aten::conv2d >= 4", "f", "?", "?", "f", "?", "f", "f", "f"},
      {"calls aten::conv2d <= 3", "p", "?", "?", "p", "?", "p", "p", "p"},
      {"calls aten::conv2d < 3", "f", "f", "f", "f", "f", "f", "f", "f"},
      {"calls aten::conv2d == 3", "p", "?", "?", "p", "?", "p", "p", "p"},
      {"calls aten::conv2d == 2", "f", "f", "f", "f", "f", "f", "f", "f"},
      {"calls aten::conv2d != 2", "p", "p", "p", "p", "p", "p", "p", "p"},
      {"calls aten::conv2d != 4", "p", "?", "?", "p", "?", "p", "p", "p"},
      {"never calls aten::conv2d", "f", "f", "f", "f", "f", "f", "f", "f"},
      {"never calls aten::relu", "p", "?", "?", "p", "?", "p", "p", "p"},
      {"never calls my.module.f", "p", "?", "?", "?", "?", "?", "p", "p"},
      {"never calls at::native::relu", "p", "?", "?", "p", "p", "?", "p", "p"},
      {"ops <= 100", "p", "?", "?", "p", "?", "p", "p", "p"},
      {"kernels <= 100", "p", "?", "?", "p", "?", "p", "p", "p"},
      {"kernels <= 3", "p", "?", "?", "p", "?", "p", "?", "p"},
      {"kernels >= 1", "p", "p", "p", "p", "p", "p", "p", "p"},
      {"library calls <= 100", "p", "?", "?", "p", "?", "p", "p", "p"},
      {"library calls >= 3", "p", "p", "p", "p", "p", "p", "?", "p"},
      {"launches <= 100", "p", "?", "?", "p", "p", "?", "p", "p"},
      {"no kernel of dtype float64", "p", "?", "?", "p", "?", "p", "p", "p"},
      {"no kernel of dtype float16", "f", "f", "f", "f", "f", "f", "f", "f"},
      {"implicit copies <= 5", "p", "?", "?", "?", "?", "p", "?", "p"},
      {"conv2d uses cudnn", "p", "?", "?", "p", "?", "?", "?", "?"},
      {"conv2d uses mkl", "f", "?", "f", "f", "?", "?", "?", "?"},
      {"conv2d never uses mkl", "p", "?", "?", "p", "?", "?", "?", "?"},
      {"conv2d never uses cudnn", "f", "f", "f", "f", "f", "f", "?", "?"},
  });
  constexpr auto kKinds = std::to_array<std::pair<const char*, const char * Case::*>>({
      {"events_lost", &Case::events},
      {"texts_lost", &Case::events},
      {"probes_failed", &Case::events},
      {"of a newer optrace", &Case::events},
      {"untraced_children", &Case::children},
      {"processes_untraced", &Case::children},
      {"exit_status", &Case::children},
      {"python_frames_off", &Case::python},
      {"python_functions_merged", &Case::python},
      {"op_records_missing", &Case::records},
      {"device_work_missing", &Case::device},
      {"paths_merged", &Case::paths},
      {"callers_inferred", &Case::callers},
      {"program_waited", &Case::nothing},
      {"triton_kernels", &Case::nothing},
  });
  const auto verdict = [](const char* rule, const char* kind) {
    Report report = convolution_report();
    if (kind != nullptr) report.shortfalls = {{kind, 7}};
    const CheckResult result = one(report, rule, {.allow_unknown = true});
    CHECK(result.remedy.empty() == (result.status != Status::error));
    return std::string(result.status == Status::passed   ? "p"
                       : result.status == Status::failed ? "f"
                                                         : "?");
  };
  for (const Case& it : kCases) {
    INFO(it.rule);
    CHECK(verdict(it.rule, nullptr) == it.nothing);
    for (const auto& [kind, expected] : kKinds) {
      INFO(kind);
      CHECK(verdict(it.rule, kind) == it.*expected);
    }
  }
}

TEST_CASE("a report and what is written of it say what a trace lacks", "[check][report]") {
  Trace trace;
  trace.threads.emplace_back().lost = 5;
  trace.threads.emplace_back().lost = 2;
  trace.statistics.unprobed_callers = 3;
  trace.op_records = {"{}"};
  trace.meta.probes.failed = 4;
  trace.meta.untraced_children = true;
  trace.meta.shortfalls = {{"python_frames_off", 3}};
  Report report = merge(trace, nullptr, {});
  const auto counts = [](const std::vector<Shortfall>& shortfalls) {
    std::string text;
    for (const Shortfall& one : shortfalls)
      text += one.kind + " " + std::to_string(one.count) + ", ";
    return text;
  };
  const std::string expected =
      "events_lost 7, probes_failed 4, untraced_children 1, python_frames_off 3, "
      "callers_inferred 3, ";
  CHECK(counts(report.shortfalls) == expected);
  CHECK(counts(parse_report(to_json(report)).shortfalls) == expected);
  CHECK(counts(parse_report(to_json(for_baseline(report))).shortfalls) == expected);
  std::vector<Report> reports;
  reports.push_back(merge(trace, nullptr, {}));
  reports.push_back(std::move(report));
  const Report joined = join(std::move(reports));
  CHECK(counts(joined.shortfalls).starts_with("events_lost 14, "));

  // Each output format of a check contains the reason.
  Report lossy = convolution_report();
  lossy.shortfalls = {{"events_lost", 7}};
  const std::vector<CheckResult> results = {one(lossy, "ops <= 100")};
  for (const std::string& text : {to_text(results, {}), to_json(lossy, results), to_junit(results),
                                  to_sarif(results), to_github(results)})
    CHECK(text.find("7 events were lost") != std::string::npos);
}

TEST_CASE("rules are sentences", "[check]") {
  Rule rule = parse_rule("  calls  at::native::f(int, long) <= 12 ");
  CHECK(rule.kind->form == "calls NAME");
  CHECK(rule.pattern == "at::native::f(int, long)");
  CHECK(rule.relation == Relation::at_most);
  CHECK(rule.bound == 12);
  rule = parse_rule("calls aten::mm");
  CHECK(rule.relation == Relation::at_least);
  CHECK(rule.bound == 1);
  rule = parse_rule("never calls plumbing<std::tuple<std::optional<long> >, &of<> >::apply>");
  CHECK(rule.pattern == "plumbing<std::tuple<std::optional<long> >, &of<> >::apply>");
  rule = parse_rule("never calls *slow_conv*");
  CHECK(rule.relation == Relation::equal);
  CHECK(rule.bound == 0);
  rule = parse_rule("conv2d@cuda never uses cuDNN");
  CHECK(rule.kind->form == "OP never uses BACKEND");
  CHECK(rule.device == "cuda");
  rule = parse_rule("conv2d@cuda decision use_cudnn != false");
  CHECK(rule.kind->form == "OP decision FUNCTION == VALUE");
  CHECK(rule.pattern == "conv2d");
  CHECK(rule.device == "cuda");
  CHECK(rule.function == "use_cudnn");
  CHECK(rule.relation == Relation::not_equal);
  CHECK(rule.value == "false");
  CHECK(parse_rule("library calls != 4").pattern == "library calls");
  CHECK(parse_rule("no kernel of dtype torch.float64").value == "float64");
  CHECK(parse_rule("no implicit copy between devices").pattern == "implicit copies");
}

TEST_CASE("what is no rule is refused with what was expected", "[check]") {
  using Catch::Contains;
  CHECK_THAT(usage_error(" "), Contains("empty"));
  CHECK_THAT(usage_error("calls"), Contains("name of the called function"));
  CHECK_THAT(usage_error("calls **"), Contains("has no name"));
  CHECK_THAT(usage_error("never calls f <= 3"), Contains("'never'"));
  CHECK_THAT(usage_error("launches <= -1"), Contains("not a whole number"));
  CHECK_THAT(usage_error("launches <= 99999999999999999999"), Contains("not a whole number"));
  CHECK_THAT(usage_error("lunches <= 1"), Contains("can't be counted"));
  CHECK_THAT(usage_error("conv2d uses magic"), Contains("not a known backend"));
  CHECK_THAT(usage_error("conv2d@tpu uses cudnn"), Contains("not a device"));
  CHECK_THAT(usage_error("no kernel of dtype float7"), Contains("not a dtype"));
  CHECK_THAT(usage_error("conv2d decision use_cudnn > 3"), Contains("one value"));
  CHECK_THAT(usage_error("conv2d@tpu decision use_cudnn == true"), Contains("not a device"));
  CHECK_THAT(usage_error("conv2d decision * == true"), Contains("has no name"));
  CHECK_THAT(usage_error("no fun"), Contains("there is no rule"));
  CHECK_THAT(usage_error("be fast"), Contains("no form of rule"));
  CHECK_THAT(usage_error(std::string(5000, 'x')), Contains("..."));
}

TEST_CASE("a report is held against rules", "[check]") {
  const Report report = convolution_report();
  for (const char* const rule :
       {"calls aten::conv2d", "calls at::native::conv", "calls at::native::conv<int> == 3",
        "calls *cudnnBackend*", "calls aten::conv2d >= 3", "conv2d uses cudnn",
        "conv2d@cuda uses cudnn", "aten::conv2d never uses onednn", "ops <= 4", "kernels == 3",
        "library calls > 3", "copies == 1", "failures == 5", "no fallback to CPU",
        "no kernel of dtype float64", "launches == 0"}) {
    INFO(rule);
    const CheckResult result = one(report, rule);
    CHECK(result.status == Status::passed);
    CHECK_FALSE(result.found.empty());
  }
  for (const char* const rule :
       {"never calls aten::conv2d", "never calls conv2d", "never calls conv2*",
        "calls at::native::conv < 3", "conv2d never uses cudnn", "conv2d uses onednn", "ops < 4",
        "no implicit copy", "no copy", "no failure", "no kernel of dtype float16"}) {
    INFO(rule);
    CHECK(one(report, rule).status == Status::failed);
  }
  const CheckResult found = one(report, "conv2d uses onednn");
  CHECK(found.found == "0 of 3 calls use onednn; the calls used cuDNN instead");
  REQUIRE(found.path.size() == 4);
  CHECK(found.path[0].file == "model.py");
  CHECK(found.path[1].name == "aten::conv2d");
  CHECK(found.path[3].name == "cudnnBackendExecute");
}

TEST_CASE("a decision is what a function returned in calls of an op", "[check]") {
  Report report = empty_report();
  Frame conv = op("conv2d", "float32", "cpu");
  Frame use = frame(Layer::kernel, "at::native::ConvParams<long>::use_mkldnn", 3);
  use.detail.edit().returned = ReturnedValues{"bool", {{true, "true", 2}}, 0};
  conv.children.push_back(std::move(use));
  report.roots.push_back(std::move(conv));
  // What one of the calls returned is not known.
  CHECK(one(report, "conv2d decision use_mkldnn == true").status == Status::error);
  CHECK(one(report, "conv2d decision use_mkldnn == false").status == Status::failed);
  CHECK(one(report, "conv2d decision use_mkldnn != true").found ==
        "use_mkldnn returned true 2 times");
  CHECK(one(report, "conv2d@cuda decision use_mkldnn == true").status == Status::error);
  CHECK(one(report, "conv2d decision use_cudnn == true").status == Status::error);
  report.roots[0].children[0].calls = 2;
  CHECK(one(report, "conv2d decision use_mkldnn == true").status == Status::passed);
  CHECK(one(report, "conv2d decision use_mkldnn != true").status == Status::failed);
}

TEST_CASE("a rule that could never fail is an error, not a pass", "[check]") {
  const Report report = convolution_report();
  for (const char* const rule :
       {"never calls at::native::slow_conv", "calls aten::bogus", "bogus uses cudnn",
        "no graph break", "no frame without source", "never calls cudnnRNNForwrd"}) {
    INFO(rule);
    const CheckResult result = one(report, rule);
    CHECK(result.status == Status::error);
    CHECK_FALSE(result.remedy.empty());
  }
  CHECK(one(report, "never calls at::native::slow_conv", {.allow_unknown = true}).status ==
        Status::passed);
  Trace trace;
  trace.functions = {native("_ZN2at6native9slow_convEv", true)};
  const std::vector<Rule> rules = {parse_rule("never calls *::slow_conv")};
  CHECK(check(report, KnownNames({&trace, 1}, nullptr), rules)[0].status == Status::passed);
}

TEST_CASE("an empty report passes nothing", "[check]") {
  CHECK(one(empty_report(), "launches <= 12").status == Status::failed);
  CHECK(one(empty_report(), "never calls aten::mm").status == Status::failed);
  Report report = empty_report();
  report.shortfalls = {{"program_replaced", 1}};
  for (const char* const rule : {"never calls aten::mm", "calls aten::mm >= 1"}) {
    const CheckResult result = one(report, rule);
    CHECK(result.status == Status::error);
    CHECK_THAT(result.found, Catch::Contains("the report is empty") && Catch::Contains("exec"));
  }
}

/// Returns a report in which torch.compile's wrapper calls a function, which calls `below`.
Report compiled_to(Frame below) {
  Report report = empty_report();
  Frame function = frame(Layer::python, "__main__.f", 2);
  function.children.push_back(std::move(below));
  report.roots.push_back(frame(
      Layer::python, "torch._dynamo.eval_frame._TorchDynamoContext.__call__.<locals>._fn", 2));
  report.roots.back().children.push_back(std::move(function));
  return report;
}

TEST_CASE("graph breaks are where dynamo goes on behind one, or gives a function up", "[check]") {
  Frame graph = frame(Layer::python, "forward", 2);
  graph.source.edit().file = "<eval_with_key>.3";
  graph.children.push_back(op("add", "float32", "cpu"));
  const Report compiled = compiled_to(std::move(graph));
  CHECK(one(compiled, "no graph break").status == Status::passed);
  const Report resumed =
      compiled_to(frame(Layer::python, "__main__.torch_dynamo_resume_in_f_at_3", 2));
  CHECK(one(resumed, "no graph break").found == "2");
  CHECK(one(resumed, "graph breaks <= 2").status == Status::passed);
  // The function calls ops itself, outside of any graph.
  CHECK(one(compiled_to(op("add", "float32", "cpu")), "no graph break").found == "2");
  // Ops that run during compilation don't count.
  Frame compiler =
      frame(Layer::compiler, "torch._dynamo.convert_frame.CatchErrorsWrapper.__call__");
  compiler.children.push_back(op("add", "float32", "cpu"));
  const Report tried_out = compiled_to(std::move(compiler));
  CHECK(one(tried_out, "no graph break").status == Status::passed);
}

TEST_CASE("recompiles are the compilations for a guard that failed", "[check]") {
  Report report = compiled_to(frame(Layer::python, "forward"));
  CHECK(one(report, "no recompile").status == Status::error);
  Compilation compilation;
  compilation.id = "0/0";
  compilation.function = "f";
  compilation.file = "/x.py";
  compilation.line = 3;
  report.compilations.push_back(compilation);
  compilation.recompile_reasons = {"size"};
  for (const char* const id : {"0/1", "0/2"}) {
    compilation.id = id;
    report.compilations.push_back(compilation);
  }
  CHECK(one(report, "recompiles <= 2").status == Status::passed);
  const CheckResult failed = one(report, "no recompile");
  CHECK(failed.status == Status::failed);
  CHECK(failed.found == "2");
  REQUIRE(failed.places.size() == 1);
  CHECK(failed.places[0].line == 3);
  CHECK(failed.places[0].count == 2);
  report.processes = {{1, {}}, {2, {}}};
  CHECK(one(report, "no recompile").status == Status::error);
}

TEST_CASE("a file of rules has names, reasons and lines", "[check]") {
  const RuleFile yaml(
      "schema: optrace.rules/1\n"
      "rules:\n"
      "  - never calls *slow_conv*\n"
      "  - expect: launches <= 12\n"
      "    name: few launches\n"
      "    because: each costs 5 us\n");
  const std::vector<Rule> rules = read_rules(yaml.path());
  REQUIRE(rules.size() == 2);
  CHECK(rules[0].line == 3);
  CHECK(rules[1].name == "few launches");
  CHECK(rules[1].because == "each costs 5 us");
  CHECK(rules[1].line == 4);
  CHECK(rules[1].file == yaml.path().string());
  const RuleFile json(R"({"rules": ["no copy", {"expect": "ops <= 3", "name": "small"}]})");
  CHECK(read_rules(json.path())[1].name == "small");
}

TEST_CASE("a file that has no rules is refused, with the line", "[check]") {
  using Catch::Contains;
  CHECK_THAT(RuleFile("rules:\n  - no copy\nrule: x\n").error(),
             Contains("rules.yaml:3") && Contains("'rule' is unknown"));
  CHECK_THAT(RuleFile("rules:\n  - expct: no copy\n").error(), Contains("'expct' is unknown"));
  CHECK_THAT(RuleFile("rules:\n  - name: x\n").error(), Contains("lacks the key 'expect'"));
  CHECK_THAT(RuleFile("rules:\n  - no copy\n  - be fast\n").error(),
             Contains("rules.yaml:3: 'be fast' is not a rule"));
  CHECK_THAT(RuleFile("rules: []\n").error(), Contains("missing or empty"));
  CHECK_THAT(RuleFile("- no copy\n").error(), Contains("not an object"));
  CHECK_THAT(RuleFile("rules: [\n").error(), Contains("is not a file of rules"));
  CHECK_THAT(RuleFile("schema: optrace.rules/2\nrules: [no copy]\n").error(),
             Contains("not optrace.rules/1"));
  CHECK_THAT(RuleFile("rules: [no copy]\nrules: [no copy]\n").error(), Contains("twice"));
  CHECK_THAT(RuleFile(std::string(2 << 20, '\n')).error(), Contains("larger than"));
  CHECK_THAT(RuleFile(std::string(100'000, '[')).error(), Contains("is not a file of rules"));
  CHECK_THAT(RuleFile("a: &a [*a, *a]\nrules: *a\n").error(), Contains("is not a file of rules"));
}

TEST_CASE("a spoiled file of rules gives rules or an error, never a crash", "[check]") {
  const std::string whole =
      "rules:\n  - never calls *slow_conv*\n  - {expect: 'launches <= 12', name: \"few\\n\"}\n"
      "  - expect: conv2d@cuda uses cudnn\n    because: |\n      speed\n  - &a no copy\n  - *a\n";
  std::mt19937 random{2024};
  const auto below = [&random](std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
  };
  constexpr std::string_view kSigns = "[]{}:,-&*!|>'\"%@`#\n\t \\\0\xff";
  const PrivateFolder folder;
  const auto path = folder.path() / "rules.yaml";
  std::size_t refused = 0;
  for (std::size_t round = 0; round < 3000; ++round) {
    std::string text = whole;
    for (std::size_t n = 1 + below(3); n > 0; --n) {
      const std::size_t at = below(text.size());
      const char sign = kSigns[below(kSigns.size())];
      if (below(3) == 0)
        text.resize(at + 1);
      else if (below(2) == 0)
        text.insert(at, 1 + below(40), sign);
      else
        text[at] = sign;
    }
    write_bytes(path, text);
    try {
      const std::vector<Rule> rules = read_rules(path);
      CHECK_FALSE(rules.empty());
    } catch (const Error& error) {
      CHECK(error.status() == ExitStatus::usage);
      ++refused;
    }
  }
  CHECK(refused > 1000);
}

TEST_CASE("outputs say the same of each rule", "[check]") {
  const Report report = convolution_report();
  Rule hostile = parse_rule("never calls aten::conv2d");
  hostile.name = kHostileName;
  hostile.because = kHostileName;
  hostile.file = "rules.yaml";
  hostile.line = 4;
  const std::vector<CheckResult> results =
      check(report, KnownNames({}, nullptr),
            {parse_rule("no fallback to CPU"), hostile, parse_rule("calls aten::bogus")});

  const std::string text = to_text(results, {});
  CHECK(text.find("passed  no fallback to CPU: 0\n") == 0);
  CHECK(text.find("1 of 3 rules passed, 1 failed, 1 could not be decided") != std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);

  const auto json = nlohmann::json::parse(to_json(report, results));
  CHECK(json["schema"] == "optrace.check/1");
  CHECK(json["passed"] == false);
  CHECK(json["rules"][1]["status"] == "failed");
  CHECK(json["rules"][1]["path"][1]["name"] == "aten::conv2d");
  CHECK(to_json(report, results) == to_json(report, results));

  const std::string junit = to_junit(results);
  CHECK(junit.find(R"(<testsuite name="optrace check" tests="3" failures="1" errors="1">)") !=
        std::string::npos);
  CHECK(junit.find("<script>") == std::string::npos);
  CHECK(junit.find("&lt;script&gt;&quot;&#39;&amp;\\x01") != std::string::npos);
  CHECK(junit.find(R"(type="error")") != std::string::npos);

  const auto sarif = nlohmann::json::parse(to_sarif(results));
  CHECK(sarif["version"] == "2.1.0");
  const nlohmann::json& run = sarif["runs"][0];
  CHECK(run["tool"]["driver"]["name"] == "optrace");
  CHECK(run["tool"]["driver"]["rules"].size() == 3);
  REQUIRE(run["results"].size() == 2);
  CHECK(run["results"][0]["ruleIndex"] == 1);
  CHECK(run["results"][0]["message"]["text"].is_string());
  CHECK(run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] ==
        "model.py");
  CHECK(run["results"][1]["locations"].empty());

  const std::string github = to_github(results);
  CHECK(github.find("::error title=</failure><script>\"'&\\x01\\x1b[31m%250A%2C%3A\\xff,"
                    "file=model.py,line=7::found: called 3 times") != std::string::npos);
  CHECK(github.ends_with("1 of 3 rules passed\n"));
}

TEST_CASE("each line of the program that leads to what was found is listed", "[check]") {
  Report report = empty_report();
  Frame main = frame(Layer::python, "__main__.step");
  main.source = FrameSource{"train.py", 3, {}, {}};
  for (const auto& [line, calls] : {std::pair(5U, 1U), {7U, 4U}, {5U, 2U}, {9U, 1U}}) {
    Frame inner = frame(Layer::python, "torch.nn.functional.linear");
    inner.source = FrameSource{"torch/nn/functional.py", 1, line, {}};
    // Line 5 has two calls with known columns, line 7 one; line 9 has a call without columns.
    if (line != 9) inner.source.edit().call_range = CallRange{5 * calls, line, 20};
    inner.children.push_back(op("mm", "float32", "cpu"));
    inner.children.back().calls = calls;
    main.children.push_back(std::move(inner));
  }
  report.roots.push_back(std::move(main));
  report.roots.push_back(op("mm", "float32", "cpu"));  // Called from no line.
  for (const char* const rule :
       {"never calls aten::mm", "ops == 0", "mm uses cudnn", "no kernel of dtype float32"}) {
    INFO(rule);
    const CheckResult result = one(report, rule);
    CHECK(result.status == Status::failed);
    REQUIRE(result.places.size() == 3);
    CHECK(result.places[0].file == "train.py");
    CHECK(result.places[0].function == "__main__.step");
    std::vector<std::pair<std::uint32_t, std::uint64_t>> lines;
    lines.reserve(result.places.size());
    for (const CheckPlace& place : result.places) lines.emplace_back(place.line, place.count);
    CHECK(lines == std::vector<std::pair<std::uint32_t, std::uint64_t>>{{7, 4}, {5, 3}, {9, 1}});
  }
  const std::vector<CheckResult> results = {one(report, "never calls aten::mm")};
  CHECK(to_text(results, {})
            .find("by line:\n"
                  "          train.py:7  in __main__.step  ×4\n"
                  "          train.py:5  in __main__.step  ×3\n"
                  "          train.py:9  in __main__.step  ×1\n") != std::string::npos);
  const auto json = nlohmann::json::parse(to_json(report, results));
  CHECK(json["rules"][0]["places"][1] == nlohmann::json({{"function", "__main__.step"},
                                                         {"file", "train.py"},
                                                         {"line", 5},
                                                         {"call_range", nullptr},
                                                         {"count", 3}}));
  CHECK(json["rules"][0]["places"][0]["call_range"] ==
        nlohmann::json({{"column", 20}, {"end_line", 7}, {"end_column", 20}}));
  const std::string github = to_github(results);
  for (const char* const line : {"line=7,endLine=7,col=20,endColumn=20::", "line=5::", "line=9::"})
    CHECK(github.find(line) != std::string::npos);
  CHECK(github.find("(3 times at this line)") != std::string::npos);
  const auto sarif = nlohmann::json::parse(to_sarif(results))["runs"][0]["results"];
  REQUIRE(sarif.size() == 3);
  CHECK(sarif[0]["locations"][0]["physicalLocation"]["region"] ==
        nlohmann::json({{"startLine", 7}, {"endLine", 7}}));  // Without a source file, no columns.
  CHECK(sarif[2]["locations"][0]["physicalLocation"]["region"] ==
        nlohmann::json({{"startLine", 9}}));
  CHECK(to_junit(results).find("train.py:9  in __main__.step  ×1") != std::string::npos);
}

TEST_CASE("a fused copy of many tensors is a copy", "[check]") {
  Report report = empty_report();
  report.roots.push_back(op("_foreach_copy_", "float32", "cuda:0"));
  CHECK(one(report, "no copy").status == Status::failed);
  report.roots[0].children.push_back(op("copy_", "float32", "cuda:0"));
  report.roots[0].children[0].calls = 2;
  CHECK(one(report, "copies == 2").status == Status::passed);
}

TEST_CASE("a line of the program goes before one of an installed package", "[check]") {
  const auto python = [](const std::string& file, Frame inner) {
    Frame frame_ = frame(Layer::python, "f");
    frame_.source = FrameSource{file, 3, {}, {}};
    frame_.children.push_back(std::move(inner));
    return frame_;
  };
  const auto place = [&](Frame root) {
    Report report = empty_report();
    report.roots.push_back(std::move(root));
    const CheckResult result = one(report, "never calls aten::mm");
    REQUIRE(result.places.size() == 1);
    return result.places[0].file;
  };
  const auto mm = [] { return op("mm", "float32", "cpu"); };
  const std::string copy = "/usr/lib/python3.11/copy.py";
  const std::string package = "/x/.venv/lib/python3.11/site-packages/transformers/model.py";
  CHECK(place(python("train.py", python(copy, python("torch/_tensor.py", mm())))) == "train.py");
  CHECK(place(python("train.py", python(copy, python("model.py", mm())))) == "model.py");
  // If all frames are in installed packages, the innermost is reported.
  CHECK(place(python(copy, python(package, mm()))) == package);
}

TEST_CASE("BLAS and LAPACK are two backends", "[check]") {
  Report report = empty_report();
  for (const char* const function : {"sgemm_", "SGESDD", "DftiComputeForward"}) {
    Frame made = op(function == std::string("sgemm_") ? "mm"
                    : function[0] == 'S'              ? "svd"
                                                      : "fft",
                    "float32", "cpu");
    Frame work = frame(Layer::library, function);
    work.detail.edit().library = function[0] == 'D' ? "MKL" : "BLAS/LAPACK";
    made.children.push_back(std::move(work));
    report.roots.push_back(std::move(made));
  }
  for (const char* const rule : {"mm uses blas", "svd uses lapack", "fft uses mkl"})
    CHECK(one(report, rule).status == Status::passed);
  for (const char* const rule : {"mm uses lapack", "svd uses blas", "fft uses blas"})
    CHECK(one(report, rule).status == Status::failed);
}

TEST_CASE("what TORCH_LIBRARY registers is known, and nothing is proposed as itself", "[check]") {
  IndexContents contents;
  contents.registrations = {{RegistrationKind::definition, "c10d::allreduce_", "", "",
                             "torch/csrc/distributed/c10d/Ops.cpp", 21}};
  const IndexFile file(std::move(contents));
  const Index index = file.open();
  const KnownNames names({}, &index);
  CHECK(names.any_matches("c10d::allreduce_"));
  CHECK(names.any_matches("c10d::allreduce*"));
  CHECK_FALSE(names.any_matches("c10d::allreduc"));
  for (const char* const name : {"c10d::allreduce_", "c10d::allreduc"}) {
    const std::vector<std::string> near = names.near(name, 3);
    CHECK(std::ranges::find(near, name) == near.end());
  }
  const Report report = convolution_report();
  CHECK(check(report, names, {parse_rule("never calls c10d::allreduce_")})[0].status ==
        Status::passed);
}

namespace {

/// An index with these Python names, and the ops aten::mm, aten::linear and aten::reshape.
class NamedIndex {
 public:
  NamedIndex() : file_(named()), index_(file_.open()) {}

  CheckResult check(const Report& report, const std::string& rule,
                    std::span<const Trace> traces = {}) const {
    return std::move(optrace::check(report, KnownNames(traces, &index_), {parse_rule(rule)}).at(0));
  }

 private:
  static IndexContents named() {
    IndexContents contents;
    contents.python_names = {
        {"torch.LSTM", 'a', "torch.nn.LSTM", "", 0},
        {"torch._C._nn.linear", 'b', "_Z18THPVariable_linearv", "torch/csrc/nn.cpp", 7},
        {"torch.nn", 'm', "", "torch/nn/__init__.py", 1},
        {"torch.nn.LSTM", 'a', "torch.nn.rnn.LSTM", "", 0},
        {"torch.nn.functional.linear", 'a', "torch._C._nn.linear", "", 0},
        {"torch.nn.functional.relu", 'f', "", "torch/nn/functional.py", 1},
        {"torch.nn.rnn.Base", 'c', "", "torch/nn/rnn.py", 1},
        {"torch.nn.rnn.Base.forward", 'f', "", "torch/nn/rnn.py", 2},
        {"torch.nn.rnn.Base.to", 'f', "", "torch/nn/rnn.py", 2},
        {"torch.nn.rnn.LSTM", 'c', "torch.nn.rnn.Base", "torch/nn/rnn.py", 3},
        {"torch.nn.rnn.LSTM.forward", 'f', "", "torch/nn/rnn.py", 4},
        {"torch.nn.rnn.Mine", 'c', "torch.nn.rnn.Base", "torch/nn/rnn.py", 5},
        {"torch.nn.rnn.Mine.extra", 'f', "", "torch/nn/rnn.py", 6},
        {"torch.vmap", 'a', "torch.inner.vmap", "", 0},
        {"torch.inner.vmap", 'f', "", "torch/inner.py", 4},
    };
    OpFacts reshape;
    reshape.kernels = {{"CompositeImplicitAutograd", "at::native::reshape_symint"}};
    contents.ops = {{"aten::mm", "mm", 1, ""},
                    {"aten::linear", "linear", 1, ""},
                    {"aten::reshape", "reshape", 1, to_json(reshape)}};
    contents.functions.emplace_back();
    contents.functions.back().symbol = "_ZN3c109SomethingEv";
    contents.functions.back().file = "c10/a.cpp";
    return contents;
  }

  IndexFile file_;
  Index index_;
};

}  // namespace

TEST_CASE("a rule about an op whose kernel ran without it is undecided", "[check]") {
  const NamedIndex index;
  Report report = empty_report();
  Frame mm = call("aten::mm");
  mm.children.push_back(frame(Layer::kernel, "at::native::reshape_symint"));
  report.roots.push_back(std::move(mm));
  CHECK(index.check(report, "never calls aten::reshape").status == Status::error);
  CHECK(index.check(report, "never calls at::native::reshape_symint").status == Status::failed);
  CHECK(index.check(report, "never calls aten::linear").status == Status::passed);
  report.roots.front().op = "aten::reshape";
  CHECK(index.check(report, "calls aten::reshape == 1").status == Status::passed);
}

TEST_CASE("a name stands for what it is an alias of, and a class for its methods", "[check]") {
  const NamedIndex index;
  Report report = empty_report();
  Frame vmap = frame(Layer::python, "torch.inner.vmap");
  // A method that calls another method of its class counts as one call of the class.
  Frame lstm = frame(Layer::python, "torch.nn.rnn.LSTM.forward", 2);
  lstm.children.push_back(frame(Layer::python, "torch.nn.rnn.LSTM.check", 4));
  vmap.children.push_back(std::move(lstm));
  Frame bound = frame(Layer::binding, "THPVariable_linear");
  bound.symbol = std::string("_ZL18THPVariable_linearv");
  bound.source = FrameSource{"torch/csrc/nn.cpp", 7, {}, {}};
  vmap.children.push_back(std::move(bound));
  report.roots.push_back(std::move(vmap));
  for (const char* const rule :
       {"never calls torch.vmap", "never calls torch.nn.LSTM", "never calls nn.LSTM",
        "never calls LSTM", "never calls torch.nn.rnn.LSTM", "never calls torch.nn.LSTM.forward",
        "never calls torch.nn.*LSTM", "never calls torch.nn.functional.linear",
        "never calls F.linear", "never calls torch.nn.functional.*"}) {
    INFO(rule);
    CHECK(index.check(report, rule).status == Status::failed);
  }
  // Only a trace has each call of a Python function.
  Trace trace;
  trace.python_functions.push_back({"torch.nn.rnn.LSTM.forward", "/rnn.py", 4});
  trace.paths.push_back({.kind = PathKind::python, .what = 0, .calls = 2});
  trace.meta.python_calls_beyond_paths.emplace();
  const auto in_trace = [&](const char* rule) {
    return index.check(report, rule, {&trace, 1}).status;
  };
  CHECK(in_trace("calls torch.nn.LSTM > 2") == Status::failed);
  CHECK(in_trace("calls torch.nn.LSTM == 2") == Status::passed);
  CHECK(in_trace("never calls F.relu") == Status::passed);
  for (const char* const rule :
       {"calls torch.nn.LSTM > 2", "calls torch.nn.LSTM == 2", "never calls F.relu"})
    CHECK(index.check(report, rule).status == Status::error);
  // A module; a method that a base class defines; a class whose forward() a base class defines; a
  // function that is not a step of an op.
  for (const char* const rule : {"never calls torch.nn", "never calls torch.nn.LSTM.to",
                                 "never calls torch.nn.rnn.Mine", "never calls c10::Something"}) {
    INFO(rule);
    const CheckResult result = index.check(report, rule);
    CHECK(result.status == Status::error);
    CHECK(result.found.find("no trace can show calls of") != std::string::npos);
    CHECK_FALSE(result.remedy.empty());
  }
}

TEST_CASE("a count that may be too small decides only what more calls could not change",
          "[check]") {
  IndexContents contents;
  for (const auto& [symbol, file] :
       {std::pair{"_ZN2at12parallel_forEv", "aten/src/ATen/Parallel-inl.h"},
        std::pair{"_ZN2at6native7DEFAULT10neg_kernelEv", "aten/src/ATen/native/Neg.cpp"}}) {
    contents.functions.emplace_back();
    contents.functions.back().symbol = symbol;
    contents.functions.back().file = file;
  }
  const IndexFile file(std::move(contents));
  const Index index = file.open();
  Trace trace;
  trace.functions = {native("_ZN2at18TensorIteratorBase5buildEv", false),
                     native("_ZN2at12parallel_forEv", true),
                     native("_ZN2at6native4AVX210neg_kernelEv", true)};
  for (std::uint32_t function = 0; function < 3; ++function)
    trace.paths.push_back({.kind = PathKind::function, .what = function, .calls = 10});
  const Report report = convolution_report();
  const KnownNames names({&trace, 1}, &index);
  const auto verdict = [&](const std::string& rule) {
    return check(report, names, {parse_rule(rule)})[0].status;
  };
  // A function without a probe, and one that the compiler puts into its callers.
  for (const std::string name : {"at::TensorIteratorBase::build", "at::parallel_for"}) {
    INFO(name);
    CHECK(verdict("never calls " + name) == Status::failed);
    CHECK(verdict("calls " + name + " >= 10") == Status::passed);
    CHECK(verdict("calls " + name + " <= 9") == Status::failed);
    CHECK(verdict("calls " + name + " == 9") == Status::failed);
    CHECK(verdict("calls " + name + " <= 10") == Status::error);
    CHECK(verdict("calls " + name + " > 10") == Status::error);
  }
  // The namespace of a CPU capability is inline, and scopes may be left out.
  for (const char* const name :
       {"at::native::neg_kernel", "at::native::AVX2::neg_kernel", "neg_kernel"}) {
    INFO(name);
    CHECK(verdict(fmt::format("calls {} == 10", name)) == Status::passed);
  }
  CHECK(verdict("never calls neg_kernell") == Status::error);
}

TEST_CASE("each call of a Python function counts, whatever it led to", "[check]") {
  Trace trace;
  const PrivateFolder folder;
  const std::string file = folder.path() / "file.py";
  std::ofstream(file) << "def unused(): pass\nclass Outer:\n  def __init__(self): pass\n";
  for (const char* const name :
       {"m.pure", "m.items", "m.Net", "m.Net.__init__", "m.Net.forward", "m.Net.help", "m.Base",
        "m.Other.help", "m.<module>", "m.Outer", "m.Outer.Inner.forward"})
    trace.python_functions.push_back({name, file, 1});
  const auto path = [&](std::uint32_t function, std::uint64_t calls) {
    trace.paths.push_back({.kind = PathKind::python, .what = function, .calls = calls});
  };
  path(1, 5);  // Resumptions of one generator.
  path(2, 1);  // The body of a class.
  path(4, 3);
  path(5, 4);
  path(10, 2);
  trace.meta.python_calls_beyond_paths = {
      {"m.pure", 2}, {"m.items", -4}, {"m.Net", -1}, {"m.Net.__init__", 1}, {"m.Other.help", 1}};
  const Report report = convolution_report();
  const auto verdict = [&](const char* rule) {
    return check(report, KnownNames({&trace, 1}, nullptr), {parse_rule(rule)})[0].status;
  };
  for (const char* const rule :
       {"calls m.pure == 2", "calls m.items == 1", "calls m.Net.forward == 3", "calls m.Net == 8",
        "never calls m.unused", "never calls m.Outer.__init__"}) {
    INFO(rule);
    CHECK(verdict(rule) == Status::passed);
  }
  CHECK(verdict("never calls m.no_such_name") == Status::error);
  CHECK(verdict("never calls m.pure") == Status::failed);
  CHECK(verdict("never calls m.Net") == Status::failed);
  // The class of a class is another one.
  CHECK(verdict("never calls m.Outer") == Status::passed);
  // A class that inherits everything.
  CHECK(verdict("never calls m.Base") == Status::error);
  // A report has the numbers, too.
  Report written = empty_report();
  written.roots.push_back(frame(Layer::python, "m.items", 5));
  written.roots.push_back(frame(Layer::python, "m.Net.forward", 3));
  written.python_calls = {{"m.pure", 2}, {"m.items", 1}, {"m.Net.__init__", 1}};
  const auto reported = [&](const char* rule) {
    return check(written, KnownNames({}, nullptr, written.python_calls), {parse_rule(rule)})[0]
        .status;
  };
  for (const char* const rule :
       {"calls m.pure == 2", "calls m.items == 1", "calls m.Net.forward == 3", "calls m.Net == 4"})
    CHECK(reported(rule) == Status::passed);
  written.python_calls.reset();
  CHECK(reported("calls m.items <= 5") == Status::error);
  // An older trace has only what led to something.
  trace.meta.python_calls_beyond_paths.reset();
  CHECK(verdict("never calls m.pure") == Status::error);
  CHECK(verdict("calls m.Net.forward >= 3") == Status::passed);
  CHECK(verdict("calls m.Net.forward <= 3") == Status::error);
  // A spawned process has the program's file by another name.
  trace.python_functions[0].name = "__mp_main__.pure";
  trace.python_functions[4].name = "__mp_main__.Net.forward";
  trace.meta.python_calls_beyond_paths = {{"__mp_main__.pure", 2}};
  CHECK(verdict("calls __main__.pure == 2") == Status::passed);
  CHECK(verdict("calls __main__.Net == 3") == Status::passed);
}

TEST_CASE("ops and LAPACK's functions may be spelled as PyTorch's users do", "[check]") {
  const NamedIndex index;
  Report report = empty_report();
  Frame mm = op("mm", "float32", "cpu");
  Frame work = frame(Layer::library, "sgesdd_");
  work.detail.edit().library = "BLAS/LAPACK";
  mm.children.push_back(std::move(work));
  report.roots.push_back(std::move(mm));
  report.roots.push_back(op("linear", "float32", "cpu"));
  report.roots.back().op = "aten::linear.out";
  for (const char* const rule :
       {"calls aten::mm.default", "calls torch.ops.aten.mm", "calls torch.ops.aten.mm.default",
        "calls mm.default", "calls torch.ops.aten.*", "calls SGESDD", "calls sgesdd",
        "calls sgesdd_", "calls torch.ops.aten.linear", "calls linear.out",
        "torch.ops.aten.mm uses lapack"}) {
    INFO(rule);
    CHECK(index.check(report, rule).status == Status::passed);
  }
  CHECK(index.check(report, "calls aten::linear.default").status == Status::failed);
  CHECK(index.check(report, "never calls SGEQRF").status == Status::passed);
  CHECK(index.check(report, "never calls SGESDDD").status == Status::error);
}

TEST_CASE("what an op uses says nothing where the op was never called", "[check]") {
  const NamedIndex index;
  Report report = empty_report();
  report.device = "cpu";
  report.roots.push_back(op("mm", "float32", "cpu"));
  CHECK(index.check(report, "mm never uses cublas").status == Status::passed);
  for (const char* const rule : {"mm@cuda never uses cublas", "linear never uses onednn"}) {
    const CheckResult result = index.check(report, rule);
    CHECK(result.status == Status::error);
    CHECK(result.found.find("was never called") != std::string::npos);
  }
  CHECK(index.check(report, "mm@cuda uses cublas").status == Status::failed);
  CHECK(index.check(report, "F.relu never uses onednn").found.find("not an op") !=
        std::string::npos);
}

TEST_CASE("each call of an op uses the backend, not one of a path", "[check]") {
  Report report = convolution_report();  // Three calls, three of cuDNN.
  Frame& conv = report.roots[0].children[0];
  CHECK(one(report, "conv2d uses cudnn").status == Status::passed);
  conv.calls = 4;
  const CheckResult result = one(report, "conv2d uses cudnn");
  CHECK(result.status == Status::failed);
  CHECK(result.found.find("3 of 4 calls use cudnn") != std::string::npos);
  // Calls on two devices that share one path.
  const auto variant = [](const char* device, std::uint64_t calls) {
    return CallVariant{calls, {{{"self", tensor("float32", {2}, device)}}}, {}, {}};
  };
  dispatch_of(conv).variants = {variant("cuda:0", 3), variant("cpu", 1)};
  CHECK(one(report, "conv2d@cuda uses cudnn").status == Status::passed);
  CHECK(one(report, "conv2d@cpu never uses cudnn").status == Status::passed);
  CHECK(one(report, "conv2d@cpu uses cudnn").status == Status::failed);
  // A backend that runs on both devices may have been used by either call.
  conv.children[0].name = "at::native::flash_attention";
  conv.children[0].calls = 1;
  for (const char* const rule : {"conv2d@cpu never uses flash", "conv2d@cpu uses flash"})
    CHECK(one(report, rule).found.find("another device") != std::string::npos);
  CHECK(one(report, "conv2d@cuda uses flash").status == Status::failed);
}

TEST_CASE("a number beside a tensor doesn't choose the dtype", "[check]") {
  const auto verdict = [](std::vector<Argument> arguments, const char* result = nullptr) {
    Report report = empty_report();
    report.roots.push_back(op("mul", "bool", "cpu"));
    DispatchDetail& mul = dispatch_of(report.roots[0]);
    mul.arguments = std::move(arguments);
    if (result != nullptr)
      mul.results = std::vector<ResultOrList>{Result{tensor(result, {2}, "cpu"), {}, {}}};
    return one(report, "no kernel of dtype float64").status;
  };
  TensorFacts facts = tensor("float64", {}, "cpu");
  const Argument scalar{"other", facts};
  facts.wrapped_number = true;
  const Argument number{"other", facts};
  const auto times = [&](const char* dtype, const Argument& other) {
    return std::vector<Argument>{{"self", tensor(dtype, {2}, "cpu")}, other};
  };
  for (const Argument& other : {scalar, number}) {
    CHECK(verdict(times("float32", other)) == Status::passed);
    CHECK(verdict(times("complex64", other)) == Status::passed);
    CHECK(verdict(times("float64", other)) == Status::failed);
    CHECK(verdict(times("int64", other), "float64") == Status::failed);
  }
  CHECK(verdict(times("int64", scalar)) == Status::failed);
  CHECK(verdict(times("int64", number)) == Status::passed);
  CHECK(verdict({scalar}) == Status::failed);
  CHECK(verdict({number}, "float32") == Status::passed);
}

TEST_CASE("what the report leaves out is no ground for a verdict that it could turn", "[check]") {
  Report report = convolution_report();
  dispatch_of(report.roots[0].children[0]).variants_left_out = 8;
  CHECK(one(report, "no kernel of dtype float64").status == Status::error);
  CHECK(one(report, "no kernel of dtype float16").status == Status::failed);
  CHECK(one(report, "implicit copies <= 1").status == Status::passed);
  // A trace has the records of these calls, too.
  Trace recorded;
  recorded.op_records = {"{}", R"({"op": "aten::mul", "arguments": [{"value": {"tensor":
      {"shape": [2], "dtype": "float32"}}}, {"value": {"tensor":
      {"shape": [], "dtype": "float64", "wrapped_number": true}}}]})"};
  const auto with_records = [&] {
    return check(report, KnownNames({&recorded, 1}, nullptr),
                 {parse_rule("no kernel of dtype float64")}, {})
        .at(0)
        .status;
  };
  CHECK(with_records() == Status::passed);
  recorded.op_records.emplace_back(R"({"results": [{"tensor": {"dtype": "float64"}}]})");
  CHECK(with_records() == Status::error);
  // The results are those of the most frequent kind of calls only.
  DispatchDetail& call = dispatch_of(report.roots[0].children[0]);
  call.variants_left_out = 0;
  CHECK(with_records() == Status::passed);
  call.variants.resize(2);
  CHECK(with_records() == Status::error);
  dispatch_of(report.roots[0].children[1]).variants_left_out = 1;
  CHECK(one(report, "implicit copies <= 1").status == Status::error);
  CHECK(one(report, "no implicit copy").status == Status::failed);

  // Frames that a report omits, because they lead to nothing that it shows.
  Trace trace;
  trace.meta.python_calls_beyond_paths.emplace();
  trace.python_functions.push_back({"__main__.helper", "/p.py", 1});
  trace.functions.push_back(native("_ZN2at4cuda6detail4initEv", true));
  trace.paths.push_back({.kind = PathKind::python, .what = 0, .calls = 3});
  trace.paths.push_back({.kind = PathKind::function, .parent = 0, .what = 0, .calls = 2});
  const KnownNames names({&trace, 1}, nullptr);
  const auto verdict = [&](const char* rule) {
    return check(report, names, {parse_rule(rule)})[0].status;
  };
  CHECK(verdict("never calls __main__.helper") == Status::failed);
  CHECK(verdict("calls __main__.helper == 3") == Status::passed);
  CHECK(verdict("never calls at::cuda::detail::*") == Status::failed);
  // While a module of torch is imported.
  trace.python_functions.front().name = "torch._dynamo.<module>";
  CHECK(verdict("never calls at::cuda::detail::*") == Status::passed);
  CHECK(check(report, names, {parse_rule("never calls at::cuda::detail::*")}, {.all = true})[0]
            .status == Status::failed);

  report = convolution_report();
  for (const char* const missing : {"untraced_children", "exit_status"}) {
    report.shortfalls = {{missing, 1}};
    CHECK(one(report, "ops <= 100").status == Status::error);
    CHECK(one(report, "no copy").status == Status::failed);
    CHECK(one(report, "calls aten::conv2d").status == Status::passed);
  }
}

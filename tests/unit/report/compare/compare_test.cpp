#include "report/compare/compare.h"

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "platform/error.h"
#include "platform/files/private_folder.h"
#include "report/compare/baseline.h"
#include "report/compare/formats/comparison_output.h"
#include "report/compare/fused_line_changes.h"
#include "report/compare/summed_threads.h"
#include "report/json/saved_report.h"
#include "tests/unit/report/frames.h"
#include "tests/unit/report/written_report.h"
#include "tests/unit/small_library.h"

using namespace optrace;
using namespace optrace::test;
using Kind = Difference::Kind;

namespace {

Report report(std::vector<Frame> roots) {
  Report made;
  made.torch.version = "2.6.0";
  made.device = "cpu";
  made.roots = std::move(roots);
  return made;
}

Frame dispatcher(const std::string& key, std::vector<Frame> children = {}) {
  Frame made = frame(Layer::dispatcher, "at::_ops::add_Tensor::call", std::move(children));
  made.op = "aten::add.Tensor";
  dispatch_of(made).choice.dispatch_key = key;
  dispatch_of(made).choice.kernel = "add";
  return made;
}

OpenValue numbers(const std::vector<std::int64_t>& list) {
  std::vector<OpenValue> values;
  values.reserve(list.size());
  for (const std::int64_t number : list) values.push_back({number});
  return {std::move(values)};
}

// Returns the frame of a library's function with calls of one kind.
Frame library_call(const std::string& function, const std::vector<NamedValue>& values,
                   std::uint64_t calls = 1) {
  Frame made = frame(Layer::library, function);
  LibraryCall& call_ = made.detail.edit().calls.emplace_back();
  call_.kind = "library";
  call_.calls = calls;
  call_.values = values;
  return made;
}

std::vector<Difference> differences(std::vector<Frame> first, std::vector<Frame> second) {
  return compare(report(std::move(first)), report(std::move(second))).differences;
}

}  // namespace

TEST_CASE("the threads of a pool are compared as a sum", "[compare]") {
  // Returns the root of a thread that called two functions that often.
  const auto thread = [](std::uint64_t number, std::uint64_t first, std::uint64_t second) {
    const auto work = [](std::uint32_t line, std::uint64_t calls) {
      Frame made = frame(Layer::python, "m.work", calls);
      made.source = FrameSource{"m.py", 1, line, {}};
      Frame blas = library_call("sgemm_", {{"m", {std::int64_t{2}}}}, calls);
      blas.calls = calls;
      made.children.push_back(call("aten::mm", calls));
      made.children.back().children.push_back(std::move(blas));
      return made;
    };
    Frame made = frame(Layer::python, "threading.Thread.run");
    made.thread = number;
    if (first != 0) made.children.push_back(work(7, first));
    if (second != 0) made.children.push_back(work(9, second));
    return made;
  };
  const auto summed = [](std::vector<Frame> roots) {
    return with_threads_summed(report(std::move(roots)));
  };
  const Report one = summed(list(thread(1, 0, 3), thread(2, 4, 1)));
  REQUIRE(one.roots.size() == 1);
  CHECK(one.roots[0].calls == 2);
  REQUIRE(one.roots[0].children.size() == 2);
  CHECK(one.roots[0].children[1].calls == 4);
  CHECK(compare(one, summed(list(thread(5, 2, 2), thread(6, 2, 2)))).differences.empty());
  // As many calls by another number of threads.
  CHECK(compare(one, summed(list(thread(5, 4, 4)))).differences.empty());
  CHECK(compare(one, summed(list(thread(5, 4, 3), thread(6, 1, 1)))).differences.size() == 1);
  // Calls of one thread stay apart.
  CHECK(summed(list(thread(1, 1, 1), thread(1, 1, 1))).roots.size() == 2);
}

TEST_CASE("different lower bounds of equal numbers are no difference", "[compare]") {
  const auto with = [](const char* function, std::uint64_t calls, std::uint64_t all) {
    Report made = report(list(frame(Layer::python, function, calls)));
    made.python_calls = {{"m.f", all}};
    return made;
  };
  CHECK(compare(with("m.f", 17, 20), with("m.f", 14, 20)).differences.empty());
  CHECK(compare(with("m.f", 17, 20), with("m.f", 14, 18)).differences.size() == 1);
  CHECK(compare(with("m.g", 17, 20), with("m.g", 14, 20)).differences.size() == 1);
  CHECK(compare(for_baseline(with("m.f", 17, 20)), with("m.f", 14, 20)).differences.empty());
  const auto walked = [](std::uint64_t calls) {
    Frame made = frame(Layer::kernel, "at::TensorIteratorBase::build", calls);
    made.detail.edit().calls_at_least = true;
    return list(std::move(made));
  };
  CHECK(differences(walked(4), walked(2)).empty());
}

TEST_CASE("the same trees do not differ, whatever lines and template arguments they have",
          "[compare]") {
  Frame before = frame(Layer::kernel, "at::native::f<int>");
  before.source = FrameSource{.file = "a.cpp", .line = 7, .call_line = 9, .url = {}};
  Frame after = frame(Layer::kernel, "at::native::f<float>");
  after.source = FrameSource{.file = "b.cpp", .line = 70, .call_line = 90, .url = {}};
  const auto in_other_places = differences(list(dispatcher("CPU", list(std::move(before)))),
                                           list(dispatcher("CPU", list(std::move(after)))));
  CHECK(in_other_places.empty());
  CHECK(differences({}, {}).empty());
  Frame registered = dispatcher("CPU"), moved = dispatcher("CPU");
  dispatch_of(registered).choice.kernel = "registered at RegisterCPU.cpp:12 [kernel]";
  dispatch_of(moved).choice.kernel = "registered at RegisterCPU.cpp:3456 [kernel]";
  const auto registered_elsewhere =
      differences(list(std::move(registered)), list(std::move(moved)));
  CHECK(registered_elsewhere.empty());
}

TEST_CASE("ways that only one of two took are told once, with how much is below", "[compare]") {
  const auto found = differences(
      list(frame(Layer::kernel, "top",
                 list(frame(Layer::kernel, "a"),
                      frame(Layer::kernel, "old", list(frame(Layer::library, "sgemm_")))))),
      list(frame(Layer::kernel, "top",
                 list(frame(Layer::kernel, "new"), frame(Layer::kernel, "a"),
                      frame(Layer::kernel, "a")))));
  REQUIRE(found.size() == 3);
  CHECK(found[0].kind == Kind::appeared);
  CHECK(found[0].path == std::vector<std::string>{"top", "new"});
  CHECK(found[1].kind == Kind::appeared);
  CHECK(found[1].path.back() == "a");
  CHECK(found[2].kind == Kind::vanished);
  CHECK(found[2].path.back() == "old");
  CHECK(found[2].frames == 2);
}

TEST_CASE("what was decided otherwise is told with both values", "[compare]") {
  const auto found = differences(list(dispatcher("CPU")), list(dispatcher("CUDA")));
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == Kind::changed);
  CHECK(found[0].what == "dispatch_key");
  CHECK(found[0].before == "CPU");
  CHECK(found[0].after == "CUDA");
  Comparison comparison;
  comparison.differences = found;
  const std::string text = to_text(report({}), report({}), comparison, {"a.json", "b.json"}, {});
  CHECK(text.starts_with("-         a.json: torch 2.6.0 on cpu\n"));
  CHECK(text.find("changed   aten::add.Tensor  dispatch_key: CPU → CUDA\n") != std::string::npos);
  CHECK(text.ends_with("\n1 difference\n"));
  const auto json = nlohmann::json::parse(to_json(report({}), report({}), comparison));
  CHECK(json["schema"] == "optrace.comparison/1");
  CHECK(json["differences"][0]["path"] == nlohmann::json({"aten::add.Tensor"}));
}

TEST_CASE("what a function returned is compared", "[compare]") {
  using Values = std::vector<CountedResult>;
  const auto returning = [](const char* type, const Values& values, std::uint64_t calls) {
    Frame made = frame(Layer::runtime, "at::native::use_mkldnn", calls);
    made.detail.edit().returned = ReturnedValues{type, values, 0};
    return made;
  };
  const auto compared = [&](const Values& before, const Values& after, std::uint64_t calls = 1,
                            const char* type = "bool") {
    return differences(list(returning(type, before, calls)), list(returning(type, after, calls)));
  };
  const CountedResult yes{true, "true", 1}, no{false, "false", 1};
  const auto number = [](std::int64_t is, const char* name) { return CountedResult{is, name, 1}; };
  const auto found = compared({yes}, {no});
  REQUIRE(found.size() == 1);
  CHECK(found[0].what == "returned");
  CHECK(found[0].before == "true");
  CHECK(found[0].after == "false");
  CHECK(compared({yes}, {yes}).empty());
  CHECK(compared({yes}, {}).empty());
  CHECK(compared({yes, yes}, {yes, no}, 2).size() == 1);
  CHECK(compared({yes, yes}, {yes, no}, 3).empty());  // A call without a value.
  CHECK(compared({yes, yes}, {no, no}, 3).size() == 1);
  CHECK(compared({number(1, "")}, {number(2, "")}, 1, "int").empty());
  const auto backends = compared({number(1, "Mkldnn")}, {number(2, "Slow2d")}, 1, "a::Backend");
  REQUIRE(backends.size() == 1);
  CHECK(backends[0].before == "Backend::Mkldnn");
  const Report whole = report(list(returning("bool", {yes}, 1)));
  const Report other = report(list(returning("bool", {no}, 1)));
  CHECK(compare(for_baseline(whole), other).differences.size() == 1);
}

TEST_CASE("a count is told where it first differs", "[compare]") {
  const auto tree = [](std::uint64_t outer, std::uint64_t inner) {
    Frame below = frame(Layer::kernel, "below");
    below.calls = inner;
    Frame top = frame(Layer::kernel, "top", list(std::move(below)));
    top.calls = outer;
    return list(std::move(top));
  };
  const auto found = differences(tree(2, 4), tree(3, 6));
  REQUIRE(found.size() == 1);
  CHECK(found[0].kind == Kind::count);
  CHECK(found[0].path.size() == 1);
  CHECK(found[0].before == "2");
  CHECK(found[0].after == "3");
}

TEST_CASE("trees as deep as a program's recursion are compared", "[compare]") {
  const auto deep = [](const char* innermost) {
    Frame made = frame(Layer::kernel, innermost);
    for (int i = 0; i < 20'000; ++i) made = frame(Layer::kernel, "f", list(std::move(made)));
    return list(std::move(made));
  };
  CHECK(differences(deep("a"), deep("a")).empty());
  CHECK(differences(deep("a"), deep("b")).size() == 2);
}

TEST_CASE("a report that was written is read", "[compare]") {
  Report written = report(list(dispatcher("CPU", list(frame(Layer::library, "sgemm_")))));
  written.torch.git_version = "abc";
  // Details that are compared value by value, so that the damage below reaches that code.
  using Members = std::vector<NamedValue>;
  const NamedValue x{"x", {Members{{"dims", numbers({4, 3})}, {"uid", {1}}}}};
  written.roots[0].children[0] =
      library_call("sgemm_",
                   {{"engine", {2}},
                    {"heuristic", {"emulated"}},
                    {"m", {64}},
                    {"operations", {std::vector<OpenValue>{{Members{x}}}}}},
                   3);
  written.roots[0].children[0].detail.edit().emulated = true;
  written.dry_run = EmulatedDevice{"sm_90", {}, 1};
  written.roots[0].source = FrameSource{.file = "a.cpp", .line = 7, .call_line = {}, .url = {}};
  const PrivateFolder folder;
  const auto path = folder.path() / "report.json";
  const std::string text = to_json(written);
  std::ofstream(path) << text;
  const Report read = read_report(path);
  CHECK(to_json(read) == text);
  CHECK(compare(written, read).differences.empty());

  // Every file that is truncated or has one byte changed is refused or read, and does no harm.
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string spoiled = text;
    spoiled[at] = static_cast<char>(spoiled[at] ^ (1 << (at % 7)));
    for (const std::string& hostile : {spoiled, text.substr(0, at)}) {
      write_bytes(path, hostile);
      try {
        const Report other = read_report(path);
        const std::string json = to_json(written, other, compare(written, other));
        CHECK(json.size() > 1);
      } catch (const Error& error) {
        CHECK(error.status() == ExitStatus::usage);
      }
    }
  }
}

TEST_CASE("what is no report is refused", "[compare]") {
  const PrivateFolder folder;
  const auto path = folder.path() / "report.json";
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  const std::string head = R"({"schema": "optrace.report/1", "roots": [)";
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{}"), deep,
        std::string(R"({"schema": "optrace.report/2", "roots": []})"),
        std::string(R"({"schema": "optrace.report/1"})"), head + "7]}", head + "{}]}",
        head + R"({"layer": "nowhere", "name": "f", "children": []}]})",
        head + R"({"layer": "kernel", "name": "f"}]})",
        fmt::format(
            R"({}{{"layer": "kernel", "name": "f", "detail": {{"x": {}}}, "children": []}}]}})",
            head, deep)}) {
    CAPTURE(text.substr(0, 100));
    write_bytes(path, text);
    CHECK_THROWS_AS(read_report(path), Error);
  }
}

TEST_CASE("functions between the steps are passed over where the builds differ", "[compare]") {
  const auto tree = [](const char* version, std::vector<Frame> below) {
    Report made = report(list(dispatcher("CPU", std::move(below))));
    made.torch.version = version;
    return made;
  };
  Frame wrapped = frame(Layer::kernel, "at::native::add");
  wrapped.op = "aten::add.Tensor";
  wrapped.children = list(
      frame(Layer::kernel, "at::native::inlined_elsewhere", list(frame(Layer::library, "sgemm_"))));
  Frame bare = frame(Layer::kernel, "at::native::add", list(frame(Layer::library, "sgemm_")));
  bare.op = "aten::add.Tensor";
  const auto old = [&] {
    Frame copy = frame(Layer::kernel, "at::(anonymous namespace)::wrapper_CPU_add_Tensor");
    copy.op = "aten::add.Tensor";
    copy.children.push_back(std::move(wrapped));
    return tree("2.6.0", list(std::move(copy)));
  }();
  const Report renewed = tree("2.9.0", list(std::move(bare)));
  const Comparison comparison = compare(old, renewed);
  CHECK(comparison.differences.empty());
  CHECK_FALSE(comparison.same_build);
  CHECK(comparison.passed_over_first == 1);
  CHECK(comparison.passed_over_second == 0);
  const Comparison all = compare(old, renewed, {.all = true});
  REQUIRE(all.differences.size() == 1);
  CHECK(all.differences[0].kind == Kind::vanished);
  CHECK(all.differences[0].path.back() == "at::native::inlined_elsewhere");
  CHECK(all.differences[0].frames == 1);  // Its callee is still there.
}

TEST_CASE("a kernel that took another's place is a change", "[compare]") {
  const auto tree = [](const char* kernel, const char* device_kernel) {
    Frame made = frame(
        Layer::kernel, kernel,
        list(frame(Layer::library, "cudaLaunchKernel", list(frame(Layer::device, device_kernel)))));
    made.op = "aten::add.Tensor";
    return list(dispatcher("CUDA", list(std::move(made))));
  };
  const auto found = differences(tree("at::native::old_add", "at::native::plain<4>"),
                                 tree("at::native::new_add", "at::native::vectorized<4>"));
  REQUIRE(found.size() == 2);
  CHECK(found[0].what == "function");
  CHECK(found[0].before == "at::native::old_add");
  CHECK(found[0].after == "at::native::new_add");
  CHECK(found[1].layer == Layer::device);
  CHECK(found[1].after == "at::native::vectorized<…>");
  const auto width = differences(tree("at::native::add", "at::native::vectorized<4>"),
                                 tree("at::native::add", "at::native::vectorized<2>"));
  REQUIRE(width.size() == 1);
  CHECK(width[0].what == "template");
  CHECK(width[0].after == "at::native::vectorized<2>");
}

TEST_CASE("calls that are cut into other paths are the same calls", "[compare]") {
  const auto leaf = [](std::uint64_t calls) {
    Frame made = frame(Layer::library, "sgemm_");
    made.calls = calls;
    return made;
  };
  CHECK(differences(list(frame(Layer::kernel, "f", list(leaf(1), leaf(1)))),
                    list(frame(Layer::kernel, "f", list(leaf(2)))))
            .empty());
  CHECK(differences(list(frame(Layer::kernel, "f", list(leaf(2)))),
                    list(frame(Layer::kernel, "f", list(leaf(1), leaf(1)))))
            .empty());
  CHECK(differences(list(frame(Layer::kernel, "f", list(leaf(1), leaf(1)))),
                    list(frame(Layer::kernel, "f", list(leaf(3)))))
            .size() == 2);
}

TEST_CASE("what a library was asked for is compared value by value", "[compare]") {
  const auto tree = [](int m, int stream) {
    return list(library_call("cublasSgemm_v2", {{"m", {m}}, {"n", {8}}, {"stream", {stream}}}));
  };
  CHECK(differences(tree(64, 1), tree(64, 7)).empty());
  const auto found = differences(tree(64, 1), tree(32, 7));
  REQUIRE(found.size() == 1);
  CHECK(found[0].what == "calls");
  CHECK(found[0].before == "m 64");
  CHECK(found[0].after == "m 32");
}

TEST_CASE("what a dry run can't know is set apart", "[compare]") {
  const auto convolution = [](bool emulated, std::vector<Frame> inside, int groups = 1) {
    std::vector<NamedValue> values = {{"engine", {emulated ? 28 : 4}}, {"groups", {groups}}};
    if (emulated) values.push_back({"heuristic", {"emulated"}});
    Frame made = library_call("cudnnBackendExecute", values, 0);
    made.children = std::move(inside);
    made.detail.edit().emulated = emulated;
    return list(std::move(made));
  };
  const Report dry = report(convolution(true, {}));
  const Report real = report(convolution(false, list(frame(Layer::device, "sm90_xmma_fprop"))));
  const Comparison comparison = compare(dry, real);
  CHECK(comparison.differences.empty());
  REQUIRE(comparison.not_known.size() == 2);
  CHECK(comparison.not_known[0].before == "engine 28");
  CHECK(comparison.not_known[0].after == "engine 4");
  CHECK(comparison.not_known[1].kind == Kind::appeared);
  const std::string text = to_text(dry, real, comparison, {}, {});
  CHECK(text.find("Unknown in a dry run") != std::string::npos);
  CHECK(text.find("No difference.\n") != std::string::npos);

  // The arguments of the library call are known in both reports.
  const Report other = report(convolution(false, {}, 2));
  CHECK(compare(dry, other).differences.size() == 1);
}

TEST_CASE("a baseline has what a comparison looks at", "[compare]") {
  Report whole = report(list(dispatcher("CPU", list(frame(Layer::library, "sgemm_")))));
  whole.roots[0].thread = 4711;
  dispatch_of(whole.roots[0]).arguments.emplace().push_back({"x", {}});
  whole.roots[0].symbol = std::string("_ZN2at4_ops10add_Tensor4callE");
  const Report thin = for_baseline(whole);
  CHECK(compare(whole, thin).differences.empty());
  CHECK(to_json(thin).size() < to_json(whole).size());
  CHECK_FALSE(thin.roots[0].detail->dispatch->arguments);
  CHECK(to_json(thin).find("4711") == std::string::npos);
}

TEST_CASE("what was not recorded is no ground to call two reports the same", "[compare]") {
  const auto with = [](const char* kind) {
    Report made = report(list(dispatcher("CPU")));
    if (kind != nullptr) made.shortfalls = {{kind, 7}};
    return made;
  };
  const Report whole = with(nullptr);
  CHECK(compare(whole, whole).conclusive);
  for (const char* const kind : {"events_lost", "untraced_children", "python_frames_off",
                                 "op_records_missing", "paths_merged", "of a newer optrace"}) {
    INFO(kind);
    const Report lossy = with(kind);
    CHECK_FALSE(compare(whole, lossy).conclusive);
    CHECK_FALSE(compare(lossy, whole).conclusive);
  }
  CHECK(compare(whole, with("callers_inferred")).conclusive);

  const Report lossy = with("events_lost");
  const Comparison comparison = compare(whole, lossy);
  const std::string text = to_text(whole, lossy, comparison, {}, {});
  CHECK(text.find("incomplete: 7 events were lost") != std::string::npos);
  CHECK(text.find("No difference in the recorded part") != std::string::npos);
  const auto json = nlohmann::json::parse(to_json(whole, lossy, comparison));
  CHECK(json["conclusive"] == false);
  CHECK(json["first"]["shortfalls"].empty());
  CHECK(json["second"]["shortfalls"][0]["count"] == 7);
}

TEST_CASE("trees that have nothing in common are compared in time", "[compare]") {
  const auto wide = [](const std::string& prefix) {
    std::vector<Frame> roots;
    roots.reserve(20'000);
    for (int i = 0; i < 20'000; ++i)
      roots.push_back(
          frame(Layer::kernel, prefix + std::to_string(i), list(frame(Layer::kernel, "same"))));
    return roots;
  };
  CHECK(differences(wide("a"), wide("b")).size() == 40'000);
}

TEST_CASE("a line's ops are compared with the kernels that they were fused into", "[compare]") {
  const auto program = [](std::vector<Frame> children) {
    Frame main = frame(Layer::python, "__main__.<module>", std::move(children));
    main.source = FrameSource{"/x/model.py", 1, {}, ""};
    return report(list(std::move(main)));
  };
  const auto op = [](const char* name, std::uint32_t line) {
    Frame made = dispatcher("CPU");
    made.op = name;
    made.source = FrameSource{"", 0, line, ""};
    return made;
  };
  const auto kernel = [] {
    Frame fused = frame(Layer::kernel, "cpp_fused_add_relu_0");
    fused.detail.edit().origins = {{"aten::add.Tensor", "", "/x/model.py", 7, ""},
                                   {"aten::relu", "", "/x/model.py", 8, ""},
                                   {"aten::mul.Tensor", "", "", 0, ""}};
    return fused;
  };
  const Report eager =
      program(list(op("aten::add.Tensor", 7), op("aten::relu", 8), op("aten::mm", 9)));
  const Report compiled = program(list(kernel(), op("aten::mm", 9)));
  const std::vector<FusedLineChange> changes = fused_line_changes(eager, compiled);
  using Names = std::vector<std::string>;
  REQUIRE(changes.size() == 2);
  CHECK(changes[0].line == 7);
  CHECK(changes[0].before == Names{"aten::add.Tensor"});
  CHECK(changes[0].after == Names{"cpp_fused_add_relu_0"});
  CHECK(changes[1].line == 8);
  CHECK(changes[1].before == Names{"aten::relu"});
  CHECK(fused_line_changes(eager, eager).empty());
  CHECK(fused_line_changes(compiled, compiled).empty());
  CHECK(fused_line_changes(eager, program(list(op("aten::mm", 7)))).empty());
}

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/core.h>

#include "indexer/store/source_link.h"
#include "pytorch/functions/dispatcher_steps.h"
#include "pytorch/functions/layers.h"
#include "pytorch/symbols/symbol_key.h"
#include "report/model/report.h"
#include "tests/unit/index_file.h"
#include "tests/unit/report/frame_details.h"
#include "tests/unit/report/merged_timeline.h"
#include "tests/unit/trace_builder.h"

using optrace::canonical_symbol;
using optrace::EventKind;
using optrace::Frame;
using optrace::Index;
using optrace::IndexContents;
using optrace::kNone;
using optrace::Layer;
using optrace::PathKind;
using optrace::Report;
using optrace::TraceBuilder;
using optrace::test::IndexFile;

namespace {

constexpr const char* kBinding = "_ZN5torch8autogradL18THPVariable_conv2dEP7_objectS2_S2_";
constexpr const char* kCall = "_ZN2at4_ops6conv2d4callERKNS_6TensorES4_";
constexpr const char* kPlumbing =
    "_ZN3c104impl28wrap_kernel_functor_unboxed_I1AE4callEPNS_14OperatorKernelE";
constexpr const char* kWrapper =
    "_ZN2at12_GLOBAL__N_112_GLOBAL__N_138wrapper_CompositeImplicitAutograd_convEv";
constexpr const char* kKernel = "_ZN2at6native6conv2dERKNS_6TensorES3_";
constexpr const char* kHelper = "_ZN2at6native6helperERKNS_6TensorE";
constexpr const char* kInlined = "_ZN2at6native7inlinedERKNS_6TensorE";
constexpr const char* kHandle = "_ZNK3c1019TypedOperatorHandleIFN2at6TensorERKS2_EE4callES4_";
constexpr const char* kExecute = "dnnl_primitive_execute";
constexpr const char* kImplementation =
    "_ZNK4dnnl4impl3cpu3x6426jit_avx2_convolution_fwd_t7executeERKNS0_10exec_ctx_tE";

// Python calls torch.conv2d, which goes through the dispatcher to a kernel and to oneDNN.
TraceBuilder conv2d() {
  TraceBuilder t;
  t.trace.meta.torch.version = "2.6.0+cu124";
  t.trace.meta.torch.git_version = std::string(40, 'a');
  t.trace.meta.device = "cpu";
  t.trace.meta.torch_folder = "/site-packages/torch";
  t.trace.meta.op_names = {{"conv2d", "aten::conv2d"}};
  t.trace.modules = {{"/x/libtorch_cpu.so", ""}, {"/x/libpython3.11.so.1.0", ""}};
  const auto loop = t.function("_PyEval_EvalFrameDefault");
  t.trace.functions[loop].module = 1;
  const auto binding = t.function(kBinding), call = t.function(kCall);
  const auto plumbing = t.function(kPlumbing), wrapper = t.function(kWrapper);
  const auto kernel = t.function(kKernel), helper = t.function(kHelper);
  const auto execute = t.function(kExecute), implementation = t.function(kImplementation);
  const auto forward = t.python("torch.nn.modules.conv.Conv2d.forward");
  t.trace.python_functions[forward].file = "/site-packages/torch/nn/modules/conv.py";
  t.trace.python_functions[forward].first_line = 553;
  const auto inner = t.python("torch.nn.modules.conv.Conv2d._conv_forward");
  t.trace.python_functions[inner].file = "/site-packages/torch/nn/modules/conv.py";
  t.trace.python_functions[inner].first_line = 536;
  const auto builtin = t.python("torch.conv2d");

  t.live_at_start(loop, 9000);
  t.python_event(EventKind::python_call, forward, 8000, 7);
  t.python_event(EventKind::python_call, inner, 8000, 554);
  t.python_event(EventKind::builtin_call, builtin, 8000, 549);
  for (int i = 0; i < 2; ++i) {
    t.enter(binding, loop, 7900);
    t.enter(call, binding, 7800);
    t.enter(plumbing, call, 7700);
    t.enter(wrapper, plumbing, 7600);
    t.enter(kernel, wrapper, 7500);
    t.enter(helper, kernel, 7400);
    t.enter(execute, kernel, 7350);
    t.enter(implementation, execute, 7300);
  }
  return t;
}

IndexContents contents() {
  const auto key = [](const char* symbol) { return canonical_symbol(symbol); };
  IndexContents index;
  index.meta = {{"torch_version", "2.6.0"}, {"git_version", std::string(40, 'a')}};
  index.functions = {
      {key(kBinding),
       "torch/csrc/autograd/generated/python_torch_functions_0.cpp",
       1000,
       {{key(kCall), 1010}}},
      {key(kCall), "build/aten/src/ATen/Operators_0.cpp", 2000, {{key(kHandle), 2003}}},
      {key(kWrapper),
       "build/aten/src/ATen/RegisterCompositeImplicitAutograd.cpp",
       3000,
       {{key(kKernel), 3002}}},
      {key(kKernel),
       "aten/src/ATen/native/Convolution.cpp",
       4000,
       {{key(kInlined), 4010}, {key(kExecute), 4020}, {key(kExecute), 4030}}},
      {key(kInlined), "aten/src/ATen/native/Convolution.cpp", 3900, {{key(kHelper), 3901}}},
      {key(kHelper), "aten/src/ATen/native/Convolution.cpp", 3800, {}},
  };
  return index;
}

std::string names(const Frame& root) {
  std::string text;
  for (const Frame* frame = &root; frame != nullptr;
       frame = frame->children.empty() ? nullptr : &frame->children.front())
    text += (text.empty() ? "" : " > ") + frame->name;
  return text;
}

// Returns the call line of each frame that the root calls; 0 if it has none.
std::vector<std::uint32_t> call_lines_below_root(const TraceBuilder& builder,
                                                 const IndexContents& index_contents,
                                                 const optrace::MergeOptions& options) {
  const IndexFile index(index_contents);
  const Index open = index.open();
  const Report report = merge_timeline(builder.trace, &open, options);
  std::vector<std::uint32_t> found;
  for (const Frame& frame : report.roots.at(0).children)
    found.push_back(frame.source ? frame.source->call_line.value_or(0) : 0);
  return found;
}

const Frame& descend(const Frame& frame, unsigned levels) {
  const Frame* reached = &frame;
  for (; levels > 0; --levels) reached = &reached->children.at(0);
  return *reached;
}

}  // namespace

TEST_CASE("a call through hidden Python is on the visible frame's own line", "[merge]") {
  TraceBuilder t;
  t.trace.meta.torch_folder = "/site-packages/torch";
  t.trace.modules = {{"/x/libtorch_python.so", ""}};
  const auto loop = t.function("_PyEval_EvalFrameDefault"), binding = t.function(kBinding);
  const auto call_op = t.function(kCall);
  const auto main = t.python("__main__.<module>");
  const auto find = t.python("importlib._bootstrap._find_and_load");
  const auto call = t.python("importlib._bootstrap._call_with_frames_removed");
  const auto imported = t.python("helper.<module>");
  t.live_at_start(loop, 9000);
  t.python_event(EventKind::python_call, main, 8000);
  t.python_event(EventKind::python_call, find, 8000, 6);
  t.python_event(EventKind::python_call, call, 8000, 1176);
  t.python_event(EventKind::python_call, imported, 8000, 241);
  t.python_event(EventKind::python_position, imported, 0, 3);
  t.enter(binding, loop, 7900);
  t.enter(call_op, binding, 7800);
  count_paths(t.trace, {});
  for (optrace::TracePath& path : t.trace.paths) {
    if (path.line == 3 || path.line == 6) {
      path.column = 5;
      path.end_line = path.line;
      path.end_column = 9;
    }
  }
  const Report report = merge(t.trace, nullptr, {});
  REQUIRE(report.roots.size() == 1);
  CHECK(names(report.roots[0]) ==
        "__main__.<module> > helper.<module> > torch::autograd::THPVariable_conv2d > "
        "at::_ops::conv2d::call");
  const Frame& module = descend(report.roots[0], 1);
  REQUIRE(module.source);
  CHECK(module.source->call_line == 6U);
  CHECK(module.source->call_range == optrace::CallRange{5, 6, 9});
  CHECK(descend(report.roots[0], 2).source->call_line == 3U);
}

TEST_CASE("a merged report has one frame a path, with layers, ops and lines", "[merge]") {
  const IndexFile file(contents());
  const Index index = file.open();
  const Report report = merge_timeline(conv2d().trace, &index, {});
  CHECK(report.source_exact);
  CHECK(report.source_version == "2.6.0");
  CHECK(report.device == "cpu");
  REQUIRE(report.roots.size() == 1);
  const Frame& root = report.roots[0];
  CHECK(names(root) ==
        "torch.nn.modules.conv.Conv2d.forward > torch.nn.modules.conv.Conv2d._conv_forward > "
        "torch::autograd::THPVariable_conv2d > at::_ops::conv2d::call > "
        "at::(anonymous namespace)::(anonymous namespace)::wrapper_CompositeImplicitAutograd_conv "
        "> at::native::conv2d > at::native::helper");

  CHECK(root.layer == Layer::python);
  CHECK(root.source->file == "torch/nn/modules/conv.py");
  CHECK(root.source->line == 553);
  CHECK(root.source->url == "https://github.com/pytorch/pytorch/blob/" + std::string(40, 'a') +
                                "/torch/nn/modules/conv.py#L553");
  CHECK_FALSE(root.source->call_line);  // Its caller is not in the report.
  CHECK(root.calls == 1);
  CHECK(descend(root, 1).source->call_line == 554U);

  const Frame& binding = descend(root, 2);
  CHECK(binding.layer == Layer::binding);
  CHECK(binding.calls == 2);
  CHECK(binding.source->call_line == 549U);
  CHECK(binding.source->url.empty());  // Generated.
  CHECK(written_detail(binding)["python_name"] == "torch.conv2d");

  const Frame& call = descend(root, 3);
  CHECK(call.layer == Layer::dispatcher);
  CHECK(call.op == "aten::conv2d");
  CHECK(written_detail(call)["step"] == "call");
  CHECK(call.source->line == 2000U);
  CHECK(call.source->call_line == 1010U);

  const Frame& wrapper = descend(root, 4);
  CHECK(wrapper.layer == Layer::kernel);
  CHECK(wrapper.op == "aten::conv2d");
  CHECK(wrapper.source->call_line == 2003U);  // Where the handle is called.

  const Frame& kernel = descend(root, 5);
  CHECK(kernel.op == "aten::conv2d");
  CHECK(kernel.source->call_line == 3002U);
  REQUIRE(kernel.children.size() == 2);

  const Frame& helper = kernel.children[0];
  CHECK_FALSE(helper.op);
  CHECK(helper.source->call_line == 4010U);  // Called by an inlined function.

  const Frame& library = kernel.children[1];
  CHECK(library.layer == Layer::library);
  CHECK(library.name == "dnnl_primitive_execute");
  CHECK(library.source->file.empty());
  CHECK(library.source->call_line == 4020U);
  CHECK(written_detail(library)["call_lines"] == std::vector<unsigned>{4020, 4030});
  CHECK(written_detail(library)["library"] == "oneDNN");
  CHECK(written_detail(library)["implementation"] == "cpu::x64::jit_avx2_convolution_fwd_t");
}

TEST_CASE("everything that is folded away is there when all is asked for", "[merge]") {
  const Report report = merge_timeline(conv2d().trace, nullptr, {.all = true});
  REQUIRE(report.roots.size() == 1);
  CHECK(report.roots[0].name == "_PyEval_EvalFrameDefault");
  CHECK(written_detail(report.roots[0])["entered_before_recording"] == true);
  CHECK(names(report.roots[0]).find("c10::impl::wrap_kernel_functor_unboxed_<A>::call") !=
        std::string::npos);
  CHECK(report.source_version.empty());
  CHECK_FALSE(report.source_exact);
}

TEST_CASE("what torch.compile does while it compiles is one frame", "[merge]") {
  TraceBuilder t;
  t.trace.meta.torch_folder = "/site-packages/torch";
  t.trace.meta.compilations = R"([{"id": "0/0", "function": "f",
      "called_from": {"file": "/home/u/train.py", "line": 12}}])";
  t.trace.meta.generated_code = R"([{"file": "/generated/code.py",
      "kernels": [{"name": "cpp_fused_add_0", "library": "/generated/k.so"}],
      "calls": [{"line": 30, "origin": {"file": "/home/u/train.py", "line": 5}}]}])";
  t.trace.modules = {{"/x/libtorch_cpu.so", ""}, {"/generated/k.so", ""}};
  const auto python = [&t](const char* name, const char* file) {
    const auto function = t.python(name);
    t.trace.python_functions[function].file = file;
    t.trace.python_functions[function].first_line = 1;
    return function;
  };
  const auto module = python("__main__.<module>", "/home/u/train.py");
  const auto callback = python("torch._dynamo.convert_frame.CatchErrorsWrapper.__call__",
                               "/site-packages/torch/_dynamo/convert_frame.py");
  const auto inside = python("torch._dynamo.symbolic_convert.InstructionTranslator.run",
                             "/site-packages/torch/_dynamo/symbolic_convert.py");
  const auto generated = python("cxyz.call", "/generated/code.py");
  const auto kernel = t.function("kernel");
  t.trace.functions[kernel].module = 1;
  const auto call = t.function(kCall);
  const auto add = [&t](std::uint32_t parent, PathKind kind, std::uint32_t what,
                        std::uint32_t line = 0) {
    t.trace.paths.push_back(
        {.kind = kind, .parent = parent, .what = what, .line = line, .calls = 1});
    return static_cast<std::uint32_t>(t.trace.paths.size() - 1);
  };
  const auto main = add(kNone, PathKind::python, module);
  const auto compiles = add(main, PathKind::python, callback, 12);
  add(add(compiles, PathKind::python, inside, 1), PathKind::function, call);
  const auto wrapper = add(main, PathKind::python, generated, 12);
  add(wrapper, PathKind::function, kernel, 31);

  const Report report = optrace::merge(t.trace, nullptr, {});
  REQUIRE(report.roots.size() == 1);
  REQUIRE(report.roots[0].children.size() == 2);
  const Frame& compiler = report.roots[0].children[0];
  CHECK(compiler.layer == Layer::compiler);
  CHECK(written_detail(compiler)["compilations"] == std::vector<std::string>{"0/0"});
  CHECK(compiler.children.empty());
  const Frame& ran = report.roots[0].children[1];
  CHECK(written_detail(ran)["generated"] == true);
  REQUIRE(ran.children.size() == 1);
  CHECK(ran.children[0].name == "cpp_fused_add_0");
  CHECK(written_detail(ran.children[0])["origins"][0]["line"] == 5);

  const Report all = optrace::merge(t.trace, nullptr, {.all = true});
  CHECK(all.roots[0].children[0].children.size() == 1);
}

TEST_CASE("an index of another version is used, and known to be inexact", "[merge]") {
  IndexContents other = contents();
  other.meta = {{"torch_version", "2.5.1"}, {"git_version", std::string(40, 'b')}};
  const IndexFile file(other);
  const Index index = file.open();
  const Report report = merge_timeline(conv2d().trace, &index, {});
  CHECK_FALSE(report.source_of_torch);
  CHECK_FALSE(report.source_exact);
  const Frame& kernel = descend(report.roots[0], 5);
  CHECK(kernel.source->approximate);
  CHECK(kernel.source->call_approximate);
  CHECK_FALSE(report.roots[0].source->approximate);
  // Links point to the version that the lines belong to.
  CHECK(kernel.source->url == "https://github.com/pytorch/pytorch/blob/" + std::string(40, 'b') +
                                  "/aten/src/ATen/native/Convolution.cpp#L4000");
}

TEST_CASE("ops without a name in the trace are named by the index", "[merge]") {
  IndexContents with_ops = contents();
  with_ops.ops = {{"aten::conv2d", "conv2d", 1700, ""}};
  const IndexFile file(with_ops);
  const Index index = file.open();
  TraceBuilder t = conv2d();
  t.trace.meta.op_names.clear();
  CHECK(descend(merge_timeline(t.trace, &index, {}).roots[0], 3).op == "aten::conv2d");
  CHECK_FALSE(descend(merge_timeline(t.trace, nullptr, {}).roots[0], 3).op);
}

TEST_CASE("a frame below a jump is marked, through folded frames too", "[merge]") {
  TraceBuilder t;
  const auto redispatch = t.function("_ZN2at4_ops3add10redispatchEN3c1014DispatchKeySetE");
  const auto plumbing = t.function(kPlumbing), kernel = t.function(kKernel);
  t.trace.functions[redispatch].jumps_indirectly = true;
  t.enter(redispatch, kNone, 1000);
  t.enter(plumbing, kNone, 1000);
  t.enter(kernel, plumbing, 900);
  const Report report = merge_timeline(t.trace, nullptr, {});
  const Frame& root = report.roots.at(0);
  CHECK(written_detail(root)["step"] == "redispatch");
  REQUIRE(root.children.size() == 1);
  CHECK(root.children[0].name == "at::native::conv2d");
  CHECK(written_detail(root.children[0])["tail_call"] == true);
  const Report all = merge_timeline(t.trace, nullptr, {.all = true});
  CHECK(written_detail(all.roots.at(0).children.at(0))["tail_call"] == true);
  CHECK_FALSE(written_detail(all.roots[0].children[0].children.at(0)).contains("tail_call"));
}

TEST_CASE("a frame is never shorter than what it calls", "[merge]") {
  // A function without a probe is found late, when one that Python calls below it is entered.
  TraceBuilder t;
  const auto kernel = t.function(kKernel), helper = t.function(kHelper);
  t.enter(kernel, kNone, 1000);
  t.enter(helper, kernel, 900);
  optrace::count_paths(t.trace, {});
  t.trace.paths.at(0).total_time = t.trace.paths[0].longest_time = 9;
  t.trace.paths.at(1).total_time = t.trace.paths[1].longest_time = 1400;
  const Report report = optrace::merge(t.trace, nullptr, {.times = true});
  CHECK(report.roots.at(0).time->total == 1400);
  CHECK(report.roots[0].time->range->longest == 1400);
}

TEST_CASE("threads have roots of their own", "[merge]") {
  TraceBuilder t;
  const auto kernel = t.function(kKernel);
  t.enter(kernel, kNone, 1000);
  t.trace.threads.push_back(t.trace.threads[0]);
  t.trace.threads[1].id = 2;
  t.trace.threads[1].lost = 3;
  const Report report = merge_timeline(t.trace, nullptr, {});
  REQUIRE(report.roots.size() == 2);
  CHECK(report.roots[0].thread == 1);
  CHECK(report.roots[1].thread == 2);
  CHECK(report.threads == 2);
  const auto lost = std::ranges::find(report.shortfalls, "events_lost", &optrace::Shortfall::kind);
  REQUIRE(lost != report.shortfalls.end());
  CHECK(lost->count == 3);
}

TEST_CASE("what OpenMP's workers do belongs to the call that opened the region", "[merge]") {
  TraceBuilder t;
  const auto kernel = t.function(kKernel), parallel = t.function("GOMP_parallel");
  const auto body = t.function("_ZN2at6native4bodyEv._omp_fn.0"), helper = t.function(kHelper);
  const auto start = t.function("gomp_thread_start", false);
  // GOMP_parallel's arguments are the body and the shared data; the body's is the shared data.
  const auto arguments = [&](std::uint32_t slot, std::uint64_t first, std::uint64_t second) {
    t.trace.threads[0].events.push_back({.kind = EventKind::arguments,
                                         .line = slot,
                                         .stack_pointer = first,
                                         .return_address = second});
  };
  t.enter(kernel, kNone, 1000);
  t.enter(parallel, kernel, 900);
  arguments(900, 0x1234, 0x7ffe);
  t.enter(body, parallel, 800);
  arguments(800, 0x7ffe, 0);
  t.enter(helper, body, 700);
  for (std::size_t i = 0; i < t.trace.threads[0].events.size(); ++i)
    t.trace.threads[0].events[i].time = i;
  const optrace::ThreadRecord opener = t.trace.threads[0];
  t.trace.threads.insert(t.trace.threads.begin(), 2, opener);  // Workers come first.
  for (std::size_t worker = 0; worker < 2; ++worker) {
    t.trace.threads[worker].id = 10 + worker;
    auto& events = t.trace.threads[worker].events;
    events.erase(events.begin(), events.begin() + 3);
    events[0].caller = start;
  }
  const Report report = merge_timeline(t.trace, nullptr, {});
  REQUIRE(report.roots.size() == 1);
  CHECK(report.roots[0].thread == 1);
  const Frame& inside = report.roots[0].children.at(0).children.at(0);
  CHECK(inside.calls == 3);
  CHECK(inside.thread == 1);
  CHECK(written_detail(inside)["threads"] == 3);
  CHECK(report.threads == 3);
}

TEST_CASE("the CPU capability of a kernel is that of its copy's source file", "[merge]") {
  TraceBuilder t;
  const auto kernel = t.function("_ZN2at6native12_GLOBAL__N_110add_kernelEv");
  t.trace.functions[kernel].source_file = "UfuncCPUKernel_add.cpp.AVX2.cpp";
  t.enter(kernel, kNone, 1000);
  CHECK(written_detail(merge_timeline(t.trace, nullptr, {}).roots.at(0))["cpu_capability"] ==
        "AVX2");
}

TEST_CASE("a trace that knows nothing about itself still gives a report", "[merge]") {
  TraceBuilder t;
  t.enter(t.function(""), kNone, 1000);
  const Report report = merge_timeline(t.trace, nullptr, {.all = true});
  CHECK(report.torch.version.empty());
  CHECK(report.device == "cpu");
  REQUIRE(report.roots.size() == 1);
  CHECK(report.roots[0].name == "libtorch_cpu.so+0x0");
  CHECK_FALSE(report.roots[0].symbol);
}

TEST_CASE("reports as deep as a program's recursion come and go without recursion", "[merge]") {
  TraceBuilder t;
  const auto kernel = t.function(kKernel), helper = t.function(kHelper);
  for (std::uint64_t i = 300'000; i > 0; --i)
    t.enter(i % 2 == 0 ? kernel : helper,
            i == 300'000 ? kNone
            : i % 2 == 0 ? helper
                         : kernel,
            i * 100);
  const Report report = merge_timeline(t.trace, nullptr, {});
  CHECK(report.roots.size() == 1);
}

TEST_CASE("calls of templates and of stubs have their lines", "[merge]") {
  constexpr const char* kOuter = "_ZN2at6native5outerERKNS_6TensorE";
  constexpr const char* kTemplate = "_ZN2at6native5innerIfEEvRKNS_6TensorE";
  constexpr const char* kBehindStub =
      "_ZN2at6native12_GLOBAL__N_110sum_kernelERNS_14TensorIteratorE";
  const std::string stub = "_ZN2at6native12DispatchStubclE";
  TraceBuilder t;
  const auto outer = t.function(kOuter);
  t.enter(outer, optrace::kNone, 9000);
  t.enter(t.function(kTemplate), outer, 8900);
  t.enter(t.function(kBehindStub), outer, 8900, 10);
  const std::string file = "aten/src/ATen/native/ReduceOps.cpp";
  IndexContents contents;
  contents.functions = {
      {canonical_symbol(kOuter), file, 10, {{"_ZN2at6native5innerE", 12}, {stub, 14}}},
      {"_ZN2at6native5innerE", file, 20, {}},
      {canonical_symbol(kBehindStub), "aten/src/ATen/native/cpu/SumKernel.cpp", 30, {}}};
  const auto lines = [&] { return call_lines_below_root(t, contents, {}); };
  CHECK(lines() == std::vector<std::uint32_t>{12, 14});
  // With two stubs, the one that was called is unknown.
  contents.functions[0].calls.push_back({stub, 16});
  CHECK(lines() == std::vector<std::uint32_t>{12, 0});
}

TEST_CASE("overriding and foreign functions are found by what the source calls", "[merge]") {
  constexpr const char* kOuter = "_ZN2at6native5outerERKNS_6TensorE";
  constexpr const char* kOverride = "_ZN5torch8autograd12PythonEngine7executeERKSt6vectorIiSaIiEE";
  constexpr const char* kMember = "_ZN5ideep11convolution10do_computeEv";
  TraceBuilder t;
  const auto outer = t.function(kOuter);
  t.enter(outer, optrace::kNone, 9000);
  t.enter(t.function(kOverride), outer, 8900);
  t.enter(t.function(kMember), outer, 8900, 10);
  const std::string file = "aten/src/ATen/native/Convolution.cpp";
  IndexContents contents;
  contents.functions = {{canonical_symbol(kOuter),
                         file,
                         10,
                         {{"_ZN5torch8autograd6Engine7executeERKSt6vectorIiSaIiEE", 12},
                          {"_ZN5ideep11convolution7computeE", 14}}},
                        {canonical_symbol(kOverride), file, 20, {}}};
  const auto lines = [&] { return call_lines_below_root(t, contents, {.all = true}); };
  CHECK(lines() == std::vector<std::uint32_t>{12, 14});
  // With two members, the one that was called is unknown.
  contents.functions[0].calls.push_back({"_ZN5ideep11convolution7prepareE", 13});
  CHECK(lines() == std::vector<std::uint32_t>{12, 0});
}

TEST_CASE("boxed calls are steps of the dispatcher", "[merge]") {
  CHECK(optrace::dispatcher_step("at::_ops::add_Tensor::redispatch")->redispatch);
  CHECK(optrace::dispatcher_step("at::_ops::add_Tensor::call")->op == "add_Tensor");
  CHECK_FALSE(optrace::dispatcher_step("c10::Dispatcher::callBoxed")->redispatch);
  CHECK(optrace::dispatcher_step("c10::OperatorHandle::redispatchBoxed")->redispatch);
  CHECK_FALSE(optrace::dispatcher_step("c10::Dispatcher::findSchema"));
}

TEST_CASE("a boxed kernel that hands its op on is a step, though the step was inlined", "[merge]") {
  TraceBuilder t;
  t.trace.meta.op_names = {{"conv2d", "aten::conv2d"}};
  const auto call = t.function(kCall), kernel = t.function(kKernel);
  const auto adapter = t.function(
      "_ZN3c1011BoxedKernel19make_boxed_functionIXadL_ZN12_GLOBAL__N_18fallbackERKNS_"
      "14OperatorHandleENS_14DispatchKeySetEPSt6vectorINS_6IValueESaIS8_EEEEEEvPNS_"
      "14OperatorKernelES5_S6_SB_");
  const auto fallback = t.function(
      "_ZN12_GLOBAL__N_18fallbackERKN3c1014OperatorHandleENS0_14DispatchKeySetEPSt6vectorINS0_"
      "6IValueESaIS5_EE");
  const auto next = t.function(
      "_ZN3c104impl31make_boxed_from_unboxed_functorINS0_6detail24WrapFunctionIntoFunctor_INS_"
      "26CompileTimeFunctionPointerIFN2at6TensorERKS6_EXadL_ZNS5_12_GLOBAL__N_112_GLOBAL__N_136"
      "wrapper_CompositeExplicitAutograd__tES8_EEEES6_NS_4guts8typelist8typelistIJS8_"
      "EEEEELb0EE4call"
      "EPNS_14OperatorKernelERKNS_14OperatorHandleENS_14DispatchKeySetEPSt6vectorINS_6IValueESaISQ_"
      "EE");
  t.enter(call, kNone, 1000);
  t.enter(adapter, call, 900);
  t.enter(fallback, adapter, 800);
  t.enter(next, fallback, 700);
  t.enter(kernel, next, 600);
  const Report report = merge_timeline(t.trace, nullptr, {});
  CHECK(names(report.roots.at(0)) ==
        "at::_ops::conv2d::call > (anonymous namespace)::fallback > "
        "c10::OperatorHandle::redispatchBoxed > at::native::conv2d");
  const Frame& step = report.roots[0].children.at(0).children.at(0);
  CHECK(step.op == "aten::conv2d");
  CHECK(written_detail(step)["step"] == "redispatch");
  CHECK(written_detail(step)["inlined"] == true);
}

TEST_CASE("layers follow from a table of names", "[merge]") {
  using optrace::classify;
  using optrace::Visibility;
  CHECK(classify("at::_ops::add_Tensor::redispatch", "libtorch_cpu.so").layer == Layer::dispatcher);
  CHECK(classify("torch::autograd::VariableType::(anonymous namespace)::add", "").layer ==
        Layer::autograd);
  CHECK(classify("torch::autograd::generated::ConvolutionBackward0::apply", "").layer ==
        Layer::autograd);
  CHECK(classify("torch::autograd::THPVariable_add", "libtorch_python.so").layer == Layer::binding);
  CHECK(classify("kernel", "generated.so").layer == Layer::kernel);
  CHECK(classify("kernel", "generated.so").visibility == Visibility::always);
  for (const std::string_view binding :
       {"TypeError_to_NotImplemented_<&torch::autograd::THPVariable_add>", "dispatch_to",
        "initNNFunctions", "gatherTorchFunctions_0", "generated::THPAddBackward0_alpha_getter",
        "generated::get_topk_structseq", "generated::initialize_autogenerated_functions_0",
        "generated::addClass<torch::autograd::generated::AddBackward0>"}) {
    CAPTURE(binding);
    CHECK(classify(fmt::format("torch::autograd::{}", binding), "libtorch_python.so").layer ==
          Layer::binding);
  }
  CHECK(classify("torch::autograd::generated::AddBackward0::release_variables", "").layer ==
        Layer::autograd);
  CHECK(classify("at::native::add_kernel", "").layer == Layer::kernel);
  CHECK(classify("sgemm_", "libtorch_cpu.so").layer == Layer::library);
  CHECK(classify("cudnnBackendExecute", "libcudnn.so.9").layer == Layer::library);
  CHECK(classify("anything", "libpython3.12.so.1.0").visibility == Visibility::hidden);
  CHECK(classify("std::_Function_handler<void ()>::_M_invoke", "libtorch_cpu.so").visibility ==
        Visibility::hidden);
  CHECK(classify("at::native::add_kernel", "libtorch_cpu.so").visibility == Visibility::always);
  CHECK(classify("torch::autograd::SavedVariable::SavedVariable", "").visibility ==
        Visibility::if_leading);
  CHECK(classify("at::convolution_symint", "libtorch_cpu.so").layer == Layer::dispatcher);
}

TEST_CASE("links lead only to what is in the repository", "[merge]") {
  const optrace::SourceLink link("", "2.6.0+cu124");
  CHECK(link.of_native("aten/src/ATen/native/Convolution.cpp", 5) ==
        "https://github.com/pytorch/pytorch/blob/v2.6.0/aten/src/ATen/native/Convolution.cpp#L5");
  CHECK(link.of_native("build/aten/src/ATen/Operators_0.cpp", 5).empty());
  CHECK(link.of_native("/usr/include/x.h", 5).empty());
  CHECK(link.of_native("aten/\x1b]8;;x", 5).empty());
  CHECK(link.of_python("numpy/core.py", 5).empty());
  CHECK(optrace::SourceLink("", "2.7.0.dev20250101").of_native("aten/a.cpp", 1).empty());
}

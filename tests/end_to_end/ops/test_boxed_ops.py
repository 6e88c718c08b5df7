"""Ops without a function in at::_ops: called boxed, or of other namespaces than aten."""
import json
import textwrap

import pytest

from report_frames import frames

PROGRAM = """
    import os
    import torch

    library = torch.library.Library("mylib", "DEF")
    library.define("square(Tensor x) -> Tensor")
    library.impl("square", lambda x: torch.mm(x, x) + 3, "CompositeExplicitAutograd")

    @torch.jit.script
    def scripted(x, y):
        return torch.relu(torch.mm(torch.sigmoid(x), y)) - 1

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.exp()

        @staticmethod
        def backward(ctx, gradient):
            return gradient.cos()

    def quantized(x):
        packed = torch.ops.quantized.linear_prepack(
            torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), None)
        return torch.ops.quantized.linear_dynamic(x, packed)

    def custom(x):
        return torch.ops.mylib.square(x)

    def packet(x):
        torch.ops.aten.tanh(x.narrow(0, 1, 2))
        return torch.ops.aten.sinh.default(x)

    def function(x):
        return Twice.apply(x.clone().requires_grad_()).sum().backward()

    def reduced(x):
        import torch.distributed as dist
        dist.init_process_group("gloo", init_method="file://" + os.path.abspath("group"), rank=0,
                                world_size=1)
        dist.all_reduce(x)
        dist.destroy_process_group()

    def mapped(x):
        return torch._vmap_internals._vmap(torch.erf)(x)

    def extended(x):
        torch.ops.load_library("./libextension.so")
        torch.ops.optrace_extension.outer(x)
        torch.ops.optrace_extension.boxed(x)

    def main():
        x = torch.ones(4, 4)
        for i in range(4):
            scripted(x, x)
        for work in (quantized, custom, packet, function, reduced, mapped, extended):
            work(x)

    main()
"""


# Loaded while the program runs, like extensions of torch.utils.cpp_extension.
EXTENSION = """
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/relu.h>
#include <torch/library.h>

__attribute__((noinline)) at::Tensor extension_inner(const at::Tensor& x) {
  return at::mm(x, x).clone();
}

at::Tensor extension_outer(const at::Tensor& x) {
  return at::relu(extension_inner(x));
}

at::Tensor extension_boxed(const at::Tensor& x) {
  torch::jit::Stack stack{x};
  c10::Dispatcher::singleton().findSchemaOrThrow("aten::sigmoid", "").callBoxed(&stack);
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow("aten::tanh", "")
      .typed<at::Tensor(const at::Tensor&)>()
      .call(stack[0].toTensor());
}

TORCH_LIBRARY(optrace_extension, m) {
  m.def("outer(Tensor x) -> Tensor", extension_outer);
  m.def("boxed(Tensor x) -> Tensor", extension_boxed);
}
"""

@pytest.fixture(scope="module")
def traced(optrace, python, run_program, torch_folder, tmp_path_factory):
    """(the JSON report of PROGRAM, its trace)."""
    folder = tmp_path_factory.mktemp("boxed")
    (folder / "program.py").write_text(textwrap.dedent(PROGRAM))
    (folder / "extension.cpp").write_text(EXTENSION)
    built = run_program(
        ["c++", "-O1", "-fPIC", "-shared", "-std=c++17", "-DNDEBUG", "-D_GLIBCXX_USE_CXX11_ABI=0",
         f"-I{torch_folder}/include", "extension.cpp", "-o", "libextension.so",
         f"-L{torch_folder}/lib", "-Wl,--no-as-needed", "-ltorch_cpu", "-lc10"],
        cwd=folder, timeout=600)
    assert built.returncode == 0, built.stderr
    report, trace = folder / "report.json", folder / "run.trace"
    result = optrace("run", "--python", python, "--format", "json", "-o", report, "--trace", trace,
                     "program.py", cwd=folder)
    assert result.returncode == 0, result.stderr
    return json.loads(report.read_text()), trace


def is_call(frame):
    return frame["layer"] == "dispatcher" and (frame["detail"] or {}).get("step") == "call"


def outermost_calls(frame):
    """Returns (op, calls) of the ops below a frame that no other op calls, in order."""
    found = []
    for child in frame["children"]:
        if is_call(child):
            found.append((child["op"], child["calls"]))
        else:
            found += outermost_calls(child)
    return found


def calls_in(report, function):
    name = f"__main__.{function}"
    return [call for frame in frames(report) if frame["name"] == name
            for call in outermost_calls(frame)]


def total(calls):
    sums = {}
    for op, number in calls:
        sums[op] = sums.get(op, 0) + number
    return sums


def test_the_ops_of_a_scripted_function_are_told_apart(traced):
    report, _ = traced
    ops = ("aten::sigmoid", "aten::mm", "aten::relu", "aten::sub.Scalar")
    sums = total(calls_in(report, "main"))
    assert {op: sums.get(op) for op in ops} == dict.fromkeys(ops, 4)
    for frame in frames(report):
        if is_call(frame) and frame["op"] == "aten::sigmoid":
            inside = {below["op"] for below in frames({"roots": frame["children"]})}
            assert inside <= {"aten::sigmoid", "aten::empty.memory_format", None}, inside
            assert frame["detail"]["arguments"][0]["value"]["tensor"]["shape"] == [4, 4]


@pytest.mark.parametrize("function, op, inside", [
    ("custom", "mylib::square", {"aten::mm", "aten::add.Tensor"}),
    ("quantized", "quantized::linear_dynamic", {"aten::empty.memory_format"}),
    ("packet", "aten::tanh", set()),
    ("packet", "aten::sinh", set()),
    ("reduced", "c10d::allreduce_", set()),
    ("mapped", "aten::erf", set()),
    ("extended", "optrace_extension::outer", {"aten::mm", "aten::relu"}),
    ("extended", "optrace_extension::boxed", {"aten::sigmoid", "aten::tanh"}),
])
def test_an_op_without_a_step_of_its_own_has_a_frame(traced, function, op, inside):
    report, _ = traced
    found = [frame for root in frames(report) if root["name"] == f"__main__.{function}"
             for frame in frames({"roots": root["children"]})
             if is_call(frame) and frame["op"] == op]
    assert found, calls_in(report, function)
    below = {frame["op"] for frame in frames({"roots": found[0]["children"]}) if is_call(frame)}
    assert inside <= below


@pytest.mark.parametrize("function, ops, callee", [
    ("extension_outer", ["aten::relu"], "extension_inner"),
    ("extension_inner", ["aten::mm", "aten::clone"], None),
    ("extension_boxed", ["aten::sigmoid", "aten::tanh"], None),
])
def test_functions_of_a_library_loaded_meanwhile_have_frames(traced, function, ops, callee):
    report, _ = traced
    found = [frame for frame in frames(report) if frame["name"] == function]
    assert len(found) == 1 and found[0]["library"] == "libextension.so"
    children = found[0]["children"]
    assert [child["op"] for child in children if is_call(child)] == ops
    assert callee is None or children[0]["name"] == callee


def test_a_custom_autograd_function_is_no_op(traced):
    report, _ = traced
    calls = total(calls_in(report, "function"))
    assert {"aten::clone", "aten::exp", "aten::sum"} <= set(calls)
    assert all("::" in op for op in calls)


def test_no_op_is_entered_twice(traced):
    """A step of at::_ops and the record of its op are one frame."""
    report, _ = traced
    for frame in frames(report):
        if not is_call(frame) or not frame["name"].startswith("at::_ops::"):
            continue
        for child in frame["children"]:
            assert not (is_call(child) and child["op"] == frame["op"]), frame["op"]


@pytest.mark.parametrize("rule, status", [
    ("never calls aten::mm", 1),
    ("calls aten::relu", 0),
    ("calls c10d::allreduce_", 0),
    ("never calls quantized::linear_dynamic", 1),
    ("calls fbgemm::fbgemmPacked", 0),
    ("never calls torch.ops.mylib.square.default", 1),
    ("calls mylib::square", 0),
])
def test_rules_see_boxed_calls(optrace, traced, rule, status):
    _, trace = traced
    result = optrace("check", trace, "--expect", rule)
    assert result.returncode == status, result.stdout + result.stderr


def test_kernels_that_take_a_symint_are_not_boxed(traced):
    report, _ = traced
    # The last two are called through functions of the dispatcher that are not inlined.
    for op in ("aten::empty.memory_format", "aten::narrow", "aten::slice.Tensor"):
        seen = [frame["detail"]["dispatch"] for frame in frames(report)
                if frame["layer"] == "dispatcher" and frame["op"] == op
                and "dispatch" in (frame["detail"] or {})]
        assert seen and set(seen) == {"kernel"}, op


def test_the_fallback_of_autograd_redispatches_boxed(optrace, traced):
    # basicAutogradNotImplementedFallbackImpl removes the keys of autograd from the set.
    _, trace = traced
    lines = optrace("report", trace, "--format", "dispatch").stdout
    assert ("[callBoxed] op=[mylib::square], key=[AutogradCPU]\n"
            "  [redispatchBoxed] op=[mylib::square], key=[CPU]\n") in lines, lines

"""`optrace OP` for every required spelling of the ops, on real wheels."""
import functools
import json
import re

import pytest

# For each op: its spellings, and the frames that must occur below each other, in this order, on one
# path from a root (other frames may lie between), each with its layer. They are the same for all
# spellings, which differ only above the dispatcher.
OPS = {
    "conv2d": (
        ["conv2d", "nn.Conv2d", "torch.nn.Conv2d", "F.conv2d", "torch.nn.functional.conv2d",
         "torch.conv2d", "aten::conv2d"],
        [("kernel", "at::native::conv2d_symint"),
         ("dispatcher", "at::_ops::convolution::call"),
         ("kernel", "at::native::convolution"),
         ("dispatcher", "at::_ops::_convolution::call"),
         ("kernel", "at::native::_convolution"),
         ("dispatcher", "at::_ops::mkldnn_convolution::call"),
         ("kernel", "at::native::mkldnn_convolution"),
         ("library", "dnnl_primitive_execute")]),
    "linear": (
        ["linear", "nn.Linear", "F.linear", "aten::linear"],
        [("kernel", "at::native::linear"),
         ("dispatcher", "at::_ops::addmm::call"),
         ("kernel", "at::native::structured_addmm_out_cpu::impl"),
         ("kernel", "at::native::cpublas::gemm"),
         ("library", "sgemm_")]),
    "matmul": (
        ["matmul", "torch.matmul", "Tensor.matmul", "aten::matmul"],
        [("kernel", "at::native::matmul"),
         ("dispatcher", "at::_ops::mm::call"),
         ("kernel", "at::native::structured_mm_out_cpu::impl"),
         ("kernel", "at::native::cpublas::gemm"),
         ("library", "sgemm_")]),
    "add": (
        ["add", "torch.add", "Tensor.add", "aten::add", "aten::add.Tensor"],
        [("autograd", "VariableType::(anonymous namespace)::add_Tensor"),
         ("dispatcher", "at::_ops::add_Tensor::redispatch"),
         ("kernel", "wrapper_CPU_add_Tensor"),
         ("kernel", "at::native::structured_ufunc_add_CPU::impl")]),
    "add_": (
        ["Tensor.add_", "aten::add_.Tensor"],
        [("dispatcher", "at::_ops::add__Tensor::redispatch"),
         ("kernel", "wrapper_CPU_add__Tensor")]),
    "relu": (
        ["relu", "nn.ReLU", "F.relu", "torch.relu", "Tensor.relu", "aten::relu"],
        [("autograd", "VariableType::(anonymous namespace)::relu"),
         ("dispatcher", "at::_ops::relu::redispatch"),
         ("kernel", "at::native::relu"),
         ("dispatcher", "at::_ops::clamp_min::call")]),
    "softmax": (
        ["softmax", "nn.Softmax", "F.softmax", "torch.softmax", "Tensor.softmax",
         "aten::softmax.int"],
        [("kernel", "at::native::softmax"),
         ("dispatcher", "at::_ops::_softmax::call"),
         ("kernel", "at::native::structured_softmax_cpu_out::impl")]),
    "layer_norm": (
        ["layer_norm", "nn.LayerNorm", "F.layer_norm", "torch.layer_norm", "aten::layer_norm"],
        [("kernel", "at::native::layer_norm_symint"),
         ("dispatcher", "at::_ops::native_layer_norm::call"),
         ("kernel", "at::native::layer_norm_cpu")]),
    "batch_norm": (
        ["batch_norm", "nn.BatchNorm2d", "F.batch_norm", "torch.batch_norm", "aten::batch_norm"],
        [("kernel", "at::native::batch_norm"),
         ("dispatcher", "at::_ops::_batch_norm_impl_index::call"),
         ("dispatcher", "at::_ops::native_batch_norm::call"),
         ("kernel", "at::native::batch_norm_cpu")]),
    "embedding": (
        ["embedding", "nn.Embedding", "F.embedding", "torch.embedding", "aten::embedding"],
        [("autograd", "VariableType::(anonymous namespace)::embedding"),
         ("kernel", "at::native::embedding_symint"),
         ("dispatcher", "at::_ops::index_select::call"),
         ("kernel", "at::native::index_select_cpu_")]),
    "max_pool2d": (
        ["max_pool2d", "nn.MaxPool2d", "F.max_pool2d", "torch.max_pool2d", "aten::max_pool2d"],
        [("kernel", "at::native::max_pool2d"),
         ("dispatcher", "at::_ops::max_pool2d_with_indices::call"),
         ("kernel", "at::native::structured_max_pool2d_with_indices_out_cpu::impl")]),
    "cross_entropy": (
        ["cross_entropy", "nn.CrossEntropyLoss", "F.cross_entropy", "aten::cross_entropy_loss"],
        [("kernel", "at::native::cross_entropy_loss_symint"),
         ("dispatcher", "at::_ops::nll_loss_nd::call"),
         ("dispatcher", "at::_ops::nll_loss_forward::call"),
         ("kernel", "at::native::structured_nll_loss_forward_out_cpu::impl")]),
    "scaled_dot_product_attention": (
        ["scaled_dot_product_attention", "F.scaled_dot_product_attention",
         "aten::scaled_dot_product_attention"],
        [("kernel", "at::native::scaled_dot_product_attention"),
         ("dispatcher", "at::_ops::_scaled_dot_product_flash_attention_for_cpu::call"),
         ("kernel", "at::native::_scaled_dot_product_flash_attention_cpu"),
         ("library", "sgemm_")]),
}
SPELLINGS = [(spelling, path) for spellings, path in OPS.values() for spelling in spellings]

# The frames above the dispatcher, by spelling.
ABOVE = {
    "conv2d": [("python", "torch.nn.modules.module.Module._call_impl"),
               ("python", "torch.nn.modules.conv.Conv2d.forward"),
               ("python", "torch.nn.modules.conv.Conv2d._conv_forward"),
               ("binding", "torch::autograd::THPVariable_conv2d"),
               ("dispatcher", "at::_ops::conv2d::call")],
    "F.conv2d": [("binding", "torch::autograd::THPVariable_conv2d"),
                 ("dispatcher", "at::_ops::conv2d::call")],
    "relu": [("python", "torch.nn.modules.activation.ReLU.forward"),
             ("python", "torch.nn.functional.relu"),
             ("binding", "torch::autograd::THPVariable_relu"),
             ("dispatcher", "at::_ops::relu::call")],
    "Tensor.add_": [("binding", "torch::autograd::THPVariable_add_"),
                    ("dispatcher", "at::_ops::add__Tensor::call")],
    "aten::add.Tensor": [("python", "torch._ops.OpOverload.__call__"),
                         ("binding", "torch::jit::invokeOperatorFromPython"),
                         ("dispatcher", "c10::Dispatcher::callBoxed")],
}

# The frames that start the backward pass, in any call with gradients.
ENGINE = [("python", "torch._tensor.Tensor.backward"),
          ("binding", "THPEngine_run_backward"),
          ("autograd", "torch::autograd::Engine::execute")]
# The frames of a node are under the op that made it.
BACKWARD = [("dispatcher", "at::_ops::convolution::call"),
            ("autograd", "ConvolutionBackward0"),
            ("autograd", "torch::autograd::generated::ConvolutionBackward0::apply"),
            ("dispatcher", "at::_ops::convolution_backward::call"),
            ("library", "dnnl_primitive_execute")]


def frames(report):
    """Yields every frame with the frames above it, outermost first, itself last."""
    stack: list[tuple] = [(frame, ()) for frame in reversed(report["roots"])]
    while stack:
        frame, above = stack.pop()
        path = above + (frame,)
        yield path
        stack.extend((child, path) for child in reversed(frame["children"]))


def is_step(frame, layer, name):
    return frame["layer"] == layer and ("::" + frame["name"]).endswith("::" + name)


def how_far(path, expected):
    """Returns how many of the expected steps occur on a path in their order."""
    found = 0
    for frame in path:
        if found < len(expected) and is_step(frame, *expected[found]):
            found += 1
    return found


def assert_path(report, expected):
    best = max((how_far(path, expected) for path in frames(report)), default=0)
    assert best == len(expected), (
        f"{expected[best]} is missing below {expected[:best]}; there is: "
        + str(sorted({frame["name"] for *_, frame in frames(report)
                      if frame["layer"] == expected[best][0]})))


@pytest.fixture(scope="module")
def report(optrace, python, validate, tmp_path_factory):
    """report(*arguments): the JSON that the command writes into a file, validated; each call is
    traced once."""

    @functools.cache
    def run(*arguments):
        file = tmp_path_factory.mktemp("report") / "report.json"
        result = optrace(*arguments, "--python", python, "--format", "json", "-o", file)
        assert (result.returncode, result.stdout) == (0, ""), result.stderr
        assert [path.name for path in file.parent.iterdir()] == ["report.json"]
        value = json.loads(file.read_text())
        assert value["schema"] == "optrace.report/1"
        validate(value, "report")
        return value

    return run


@pytest.fixture(scope="module")
def conv2d(optrace, python, tmp_path_factory):
    """conv2d(*options) -> (CompletedProcess, trace) of the tree of conv2d; each is traced once."""
    folder = tmp_path_factory.mktemp("conv2d")

    @functools.cache
    def run(*options):
        trace = folder / f"conv2d{''.join(options)}.trace"
        result = optrace("conv2d", "--python", python, "--trace", trace, *options)
        assert result.returncode == 0, result.stderr
        return result, trace

    return run


@pytest.fixture(scope="module")
def report_of(build, python, run_program, validate, tmp_path_factory):
    """Spelling -> its report; all are traced in one Python, which takes a second to start."""
    folder = tmp_path_factory.mktemp("spellings")
    calls = folder / "calls"
    files = {spelling: folder / f"{number}.json" for number, (spelling, _) in enumerate(SPELLINGS)}
    calls.write_text("".join(
        json.dumps({"op": spelling, "backward": False, "report": str(file)}) + "\n"
        for spelling, file in files.items()))
    traced = run_program(["sh", "-c", '"$1" "$2" < "$3"', "sh", build / "trace_ops", python, calls],
                         timeout=600)
    assert traced.returncode == 0, traced.stderr
    reports = {}
    for line in map(json.loads, traced.stdout.splitlines()):
        assert not {"error", "died"} & set(line), line
        reports[line["op"]] = json.loads(files[line["op"]].read_text())
        validate(reports[line["op"]], "report")
    return reports


@pytest.mark.parametrize("spelling, path", SPELLINGS, ids=[name for name, _ in SPELLINGS])
def test_every_spelling_shows_the_steps_from_dispatcher_to_kernel(report_of, spelling, path):
    assert_path(report_of[spelling], path)


def test_ops_traced_in_one_python_are_traced_as_by_the_command(report, report_of):
    """The tests of the spellings rely on it."""
    layers = {"python", "binding", "dispatcher", "autograd", "kernel"}
    for spelling in ("conv2d", "aten::add.Tensor"):
        assert (names_in_order(report_of[spelling], layers)
                == names_in_order(report(spelling), layers)), spelling


@pytest.mark.parametrize("spelling", ABOVE)
def test_the_way_into_the_dispatcher_is_shown_as_spelled(report_of, spelling):
    assert_path(report_of[spelling], ABOVE[spelling])


def test_frames_and_dispatcher_are_one_path(report):
    _, below = OPS["conv2d"]
    assert_path(report("conv2d"), ABOVE["conv2d"] + below)


def test_backward_is_traced_too(report):
    _, forward = OPS["conv2d"]
    value = report("conv2d", "--backward")
    assert_path(value, forward)
    assert_path(value, ENGINE)
    assert_path(value, BACKWARD)
    node, = [path[-1] for path in frames(value) if path[-1]["name"] == "ConvolutionBackward0"]
    assert node["detail"]["backward_of"] == "aten::convolution"
    assert node["source"]["file"] == "tools/autograd/derivatives.yaml"
    assert "convolution_backward" in node["detail"]["formulas"][0]["formula"]


def names_in_order(value, layers):
    return [frame["name"] for *_, frame in frames(value) if frame["layer"] in layers]


@pytest.mark.parametrize("op", ["conv2d", pytest.param("add", marks=pytest.mark.verify),
                                pytest.param("layer_norm", marks=pytest.mark.verify)])
def test_jumps_and_int3_see_the_same(report, op):
    layers = {"python", "binding", "dispatcher", "autograd", "kernel", "library"}
    main = [min(path[-1]["thread"] for path in frames(value))
            for value in (report(op), report(op, "--probes", "int3"))]
    jumps, traps = (
        [frame["name"] for *_, frame in frames(value)
         if frame["layer"] in layers and frame["thread"] == thread]
        for value, thread in zip((report(op), report(op, "--probes", "int3")), main))
    assert jumps == traps


def without_thread(text):
    return re.sub(r"thread +\d+", "thread", text)


def test_the_tree_says_what_was_traced(conv2d):
    result, _ = conv2d()
    assert result.stderr == ""
    head, _, tree = result.stdout.partition("\n\n")
    assert head.startswith("nn.Conv2d(3, 8, 3)(x)\n")
    for words in ("2.6.0", "cpu", "4×3×56×56", "float32"):
        assert words in head
    assert "THPVariable_conv2d" in tree and "dnnl_primitive_execute" in tree
    assert "wrap_kernel_functor_unboxed_" not in tree
    assert "\x1b" not in result.stdout
    assert "ops dispatched" in tree and "library call" in tree


def test_all_shows_what_is_folded_away(conv2d, optrace):
    assert "wrap_kernel_functor_unboxed_" in optrace("report", conv2d()[1], "--all").stdout


def test_every_pytorch_frame_of_conv2d_has_its_line(report):
    value = report("conv2d")
    assert value["source"] == {"version": "2.6.0", "made_from": "source", "of_torch": True,
                               "exact": True}
    missing = [frame["name"] for *_, frame in frames(value)
               if frame["name"].startswith(("at::native::", "at::_ops::", "torch::autograd::"))
               and not (frame["source"] and frame["source"]["line"])]
    assert missing == []


def tree_of(result):
    """Returns the output before the recommended commands. For a trace of unknown origin, commands
    that name a file, such as those with --python, are not recommended."""
    return result.stdout.partition("\ntry ")[0].rstrip()


def test_a_trace_kept_and_shown_later_is_the_same(conv2d, optrace):
    direct, trace = conv2d()
    assert tree_of(optrace("report", trace)) == tree_of(direct)


def test_a_timeline_is_kept_on_demand_and_shows_the_same(conv2d, optrace):
    """And every call of a spelling is the same."""
    (counted, counts), (direct, timeline) = conv2d(), conv2d("--timeline")
    assert tree_of(optrace("report", timeline)) == tree_of(direct)
    assert timeline.stat().st_size > counts.stat().st_size
    assert without_thread(tree_of(direct)) == without_thread(tree_of(counted))


@pytest.mark.parametrize("op", ["conv2d", pytest.param("add", marks=pytest.mark.verify),
                                pytest.param("softmax", marks=pytest.mark.verify)])
def test_the_newest_torch_has_lines(optrace, newest_python, op):
    result = optrace(op, "--python", newest_python)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert re.match(r"torch +2\.(?!6\.)", lines[1])
    kernel = next(line for line in lines if line.startswith("kernel") and ".cpp:" in line)
    # They are approximate if no index of that version comes with optrace yet.
    (source,) = [line for line in lines if line.startswith("source ")]
    mark = "~" if "not the traced version" in source else "~?"
    assert re.search(rf"\.cpp:{mark}\d+", kernel), kernel


def test_what_torch_prints_does_not_get_into_the_report(optrace, python, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys; print('hello from site'); print('and from stderr', file=sys.stderr)\n")
    result = optrace("add", "--python", python, "--format", "json",
                     environment={"PYTHONPATH": tmp_path})
    assert result.returncode == 0
    json.loads(result.stdout)
    assert "hello from site" in result.stderr and "and from stderr" in result.stderr


def test_no_subcommand_has_the_name_of_an_op(optrace, python, run_program):
    help_text = optrace("--help").stdout
    section = help_text.partition("Subcommands:\n")[2].partition("\n\n")[0]
    subcommands = [line.split()[0] for line in section.splitlines() if line.strip()]
    assert {"report", "source"} <= set(subcommands)
    # Names reserved for subcommands, in addition to those that exist.
    reserved = {"run", "attach", "locate", "explain", "compare", "check", "layers"}
    script = ("import torch; print(*{n.split('::')[1].split('.')[0] for n in "
              "torch._C._dispatch_get_all_op_names()})")
    ops = set(run_program([python, "-c", script]).stdout.split())
    assert len(ops) > 1500
    assert ops & (set(subcommands) | reserved) == set()


@pytest.mark.parametrize("arguments", [("--help",), ("report", "--help"), ("source", "--help"),
                                       ("source", "add", "--help"), ("source", "list", "--help")])
def test_help_has_examples(optrace, arguments):
    result = optrace(*arguments)
    assert result.returncode == 0 and result.stderr == ""
    assert "Example" in result.stdout and "optrace " in result.stdout


def test_version(optrace):
    assert re.fullmatch(r"optrace \d+\.\d+\.\d+\n", optrace("--version").stdout)

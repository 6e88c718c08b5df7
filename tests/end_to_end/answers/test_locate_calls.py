"""`optrace locate`: where to go next from a name, in the index and in the wheel's Python files."""
import json
import pathlib

import pytest

DONE, USAGE = 0, 2


@pytest.fixture(scope="session")
def run(optrace, python):
    """run(*arguments): `optrace locate` with the reference Python."""
    return lambda *arguments: optrace("locate", *arguments, environment={"OPTRACE_PYTHON": python})


@pytest.fixture(scope="session")
def locate(run, validate):
    """locate(*arguments) -> the first answer."""

    def ask(*arguments):
        result = run(*arguments, "--format", "json")
        assert result.returncode == DONE, result.stderr
        value = json.loads(result.stdout)
        validate(value, "locate")
        return value["answers"][0]

    return ask


def walk(name):
    for part in name["parts"]:
        yield part
        yield from walk(part)


def path_to(name, wanted):
    """The names from a name's part down to the first one with the wanted name."""
    for part in name["parts"]:
        if part["name"] == wanted:
            return [part]
        if below := path_to(part, wanted):
            return [part, *below]
    return []


def lines_of(place, root):
    return (root / place["file"]).read_text().splitlines()


@pytest.fixture(scope="session")
def site_packages(python):
    return next(pathlib.Path(python).parent.parent.glob("lib/python3*/site-packages"))


def test_a_module_leads_to_its_kernels(locate, site_packages):
    conv2d = locate("nn.Conv2d")
    path = path_to(conv2d, "aten::conv2d")
    assert [part["name"] for part in path] == [
        "torch.nn.modules.conv.Conv2d.forward", "torch.nn.modules.conv.Conv2d._conv_forward",
        "torch.conv2d", "aten::conv2d"]
    assert [part["role"] for part in path] == ["method", "calls", "calls", "op"]
    kernels = {part["key"]: part for part in path[-1]["parts"]}
    assert kernels["CompositeImplicitAutograd"]["name"] == "at::native::conv2d_symint"
    assert kernels["CPU"]["name"] == "at::native::mkldnn_convolution"
    assert kernels["CPU"]["note"] == "of aten::mkldnn_convolution, calls oneDNN"
    assert kernels["CUDA"]["name"] == "at::native::cudnn_convolution"
    # Each call is in the line of its file that it says.
    lines = lines_of(path[0]["source"], site_packages)
    assert path[1]["call"]["exact"] is True
    assert "self._conv_forward(" in lines[path[1]["call"]["line"] - 1]
    assert "F.conv2d(" in lines[path[2]["call"]["line"] - 1]


@pytest.mark.parametrize("name, below", [
    ("nn.Linear.forward", "aten::linear"),  # An alias of a function of torch._C._nn.
    ("nn.TransformerEncoderLayer", "aten::scaled_dot_product_attention"),  # self.self_attn(...)
    ("nn.LSTM", "aten::lstm.input"),  # _VF.lstm
    ("nn.BatchNorm2d", "aten::batch_norm"),  # The base class's forward.
    ("optim.Adam", "aten::_fused_adam_"),  # func = _fused_adam
    ("F.cross_entropy", "aten::cross_entropy_loss"),
])
def test_python_leaves_through_an_op(locate, name, below):
    # The list must stay short enough to read.
    answer = locate(name)
    assert path_to(answer, below), [part["name"] for part in walk(answer)]
    assert len(list(walk(answer))) < 200


def test_callees_and_callers_are_where_they_say(locate, source):
    convolution = locate("at::native::mkldnn_convolution", "--callees", "--depth", "3")
    lines = lines_of(convolution["source"], source)
    path = path_to(convolution, "ideep::convolution_forward::compute_v3")
    assert [part["name"].rpartition(":")[2] for part in path] == [
        "_mkldnn_convolution", "_mkldnn_convolution_out", "compute_v3"]
    assert path[-1]["library"] == "oneDNN"
    for part in path[:-1]:
        call = "".join(lines[part["call"]["line"] - 1:part["call"]["line"] + 2])
        assert part["name"].rpartition(":")[2] + "(" in call
    assert path[1]["left_out"] > 0
    order = [part["call"]["line"] for part in path[1]["parts"]]
    assert order == sorted(order)
    callers = locate("at::native::raw_cudnn_convolution_forward_out", "--callers", "--depth", "3")
    path = path_to(callers, "at::native::cudnn_convolution")
    assert [part["role"] for part in path] == ["called from"] * 2
    for part, callee in zip(path, ["raw_cudnn_convolution_forward_out",
                                   "cudnn_convolution_forward_out"]):
        assert callee in lines_of(part["source"], source)[part["source"]["line"] - 1]


def test_callers_lead_back_to_python(locate):
    kernel = locate("at::native::structured_gelu_out_cpu::impl", "--callers", "--depth", "5")
    path = path_to(kernel, "torch._C._nn.gelu")
    assert [part["role"] for part in path] == ["called from", "registered for", "called from",
                                               "called from", "bound as"]
    assert path[1]["name"] == "aten::gelu"


def test_virtual_functions_lead_to_their_overrides(locate, source):
    # Pure: it is declared in a class and defined nowhere.
    allocate = locate("c10::Allocator::allocate", "--callees")
    assert (allocate["kind"], allocate["source"]) == ("function", None)
    declaring, *overriders = allocate["parts"]
    assert (declaring["role"], declaring["name"]) == ("member of", "c10::Allocator")
    assert {part["role"] for part in overriders} == {"overridden by"}
    assert {"c10::DefaultCPUAllocator::allocate", "c10::DefaultMobileCPUAllocator::allocate"} <= {
        part["name"] for part in overriders}
    for part in overriders:
        place = part["source"]
        assert "allocate(" in lines_of(place, source)[place["line"] - 1]
    # Its many overrides are listed one level below the call.
    run_node = "torch::autograd::Node::operator()"
    call = path_to(locate(run_node, "--callees"), "torch::autograd::Node::apply")[0]
    number = int(call["note"].removeprefix("virtual, ").removesuffix(" overrides"))
    assert number > 500 and not call["parts"]
    answer = locate(run_node, "--callees", "--depth", "2", "--all")
    applied = path_to(answer, "torch::autograd::Node::apply")[0]["parts"]
    # Instances of a template, such as CppNode, are one function.
    assert 0.9 * number < len(applied) <= number
    backward = "torch::autograd::generated::ConvolutionBackward0::apply"
    assert backward in [part["name"] for part in applied]
    # The way back: who calls the base's function calls the override.
    path = path_to(locate(backward, "--callers"), run_node)
    assert [part["role"] for part in path] == ["overrides", "called from"]
    assert path[0]["name"] == "torch::autograd::Node::apply"


def test_calls_are_the_same_each_time(run):
    arguments = ["at::native::convolution", "--callers", "--callees", "--depth", "4"]
    first = run(*arguments)
    assert first.returncode == DONE
    assert first.stdout == run(*arguments).stdout
    assert "recursion" in first.stdout or "listed elsewhere" in first.stdout


def test_members_made_by_the_compiler(locate):
    answer = locate("_ZN2at6native12ConjFallbackD0Ev")
    assert (answer["kind"], answer["name"]) == ("class", "at::native::ConjFallback")
    assert answer["source"]["file"] == "aten/src/ATen/ConjugateFallback.cpp"
    assert [part["role"] for part in answer["parts"]] == ["implicit member"]


def test_source_is_what_inspect_finds(run, run_program, python, validate):
    code = "import inspect, torch; print(inspect.getsource(torch.nn.Linear.forward), end='')"
    wanted = run_program([python, "-c", code], timeout=600).stdout
    result = run("nn.Linear.forward", "--source")
    assert result.returncode == DONE, result.stderr
    head, _, text = result.stdout.partition("\n")
    assert head.endswith("torch/nn/modules/linear.py:124")
    assert text == wanted
    value = json.loads(run("nn.Linear.forward", "--source", "--format", "json").stdout)
    validate(value, "locate")
    assert "\n".join([*value["definition"]["lines"], ""]) == wanted
    assert value["definition"]["moved"] is False


@pytest.fixture
def run_without_source(optrace, python, tmp_path):
    """The same as `run`, without the source trees that were indexed on this machine."""
    environment = {"OPTRACE_PYTHON": python, "OPTRACE_CACHE_DIR": tmp_path / "cache"}
    return lambda *arguments: optrace("locate", *arguments, environment=environment)


@pytest.mark.parametrize("name, first, last", [
    ("c10::DispatchKeySet", "class DispatchKeySet final {", "};"),
    ("aten::add.Tensor", "- func: add.Tensor(", "  tags: [core, pointwise]"),
    ("torch.matmul", "- func: matmul(", "NestedTensorCUDA: matmul_nested"),
])
def test_source_of_what_the_wheel_contains(run_without_source, name, first, last):
    lines = run_without_source(name, "--source").stdout.splitlines()
    assert any(line.startswith(first) for line in lines)
    assert lines[-1].endswith(last)


def test_source_that_is_not_here_or_of_another_version(optrace, run_without_source, python,
                                                       tmp_path):
    missing = run_without_source("at::native::mkldnn_convolution", "--source")
    assert missing.returncode == USAGE
    assert "aten/src/ATen/native/mkldnn/Conv.cpp:279 is not on this machine" in missing.stderr
    assert "optrace source fetch" in missing.stderr
    # A torch of an unknown version, with another text of linear.py.
    (tmp_path / "torch/nn/modules").mkdir(parents=True)
    (tmp_path / "torch/__init__.py").write_text("")
    (tmp_path / "torch/version.py").write_text("__version__ = '2.99.0'\n")
    (tmp_path / "torch/nn/modules/linear.py").write_text("class Linear:\n    pass\n")
    environment = {"PYTHONPATH": tmp_path, "OPTRACE_BACKGROUND": "0"}
    moved = optrace("locate", "nn.Linear", "--source", "--python", python, environment=environment)
    assert moved.returncode == DONE, moved.stderr
    assert moved.stdout.endswith("linear.py:1\nclass Linear:\n    pass\n")
    assert "has another line of torch.nn.modules.linear.Linear" in moved.stderr
    gone = optrace("locate", "nn.Bilinear", "--source", "--python", python, environment=environment)
    assert (gone.returncode, gone.stdout) == (USAGE, "")
    assert "has no definition of torch.nn.modules.linear.Bilinear" in gone.stderr


@pytest.mark.parametrize("arguments, message", [
    (["nn.Linear", "--source", "--callees"], "--callees excludes --source"),
    (["-", "--source"], "--open and --source take one name"),
    (["nn.Linear", "--callers"], "the callers of torch.nn.modules.linear.Linear are unknown"),
    (["-", "--callees"], "--callers and --callees take one name"),
    (["at::native::convolution", "--callers", "--depth", "0"], "--depth"),
])
def test_wrong_requests(run, arguments, message):
    result = run(*arguments)
    assert result.returncode == USAGE
    assert message in result.stderr

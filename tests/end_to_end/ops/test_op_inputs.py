"""The arguments of `optrace OP`: from the sample table, from OpInfo or made up, and as changed by
--shape, --dtype, --input and --requires-grad.
"""
import functools

import pytest

PASSED = 0
USAGE = 2


@pytest.fixture(scope="module")
def tree(optrace, python):
    """tree(*arguments) -> the command's output: the head of the tree and its frames."""

    @functools.cache
    def run(*arguments):
        result = optrace(*arguments, "--python", python)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


@pytest.mark.parametrize("spelling, call, noted", [
    ("nn.Conv2d", "nn.Conv2d(3, 8, 3)(x)", None),
    ("torch.renorm", "torch.renorm(x, ", "OpInfo"),
    ("max.reduction_with_dim", "torch.max(x, 1)", "OpInfo"),
    ("T", "OpInfo('T')(x)", "OpInfo"),
    ("optim.LBFGS", "optim.LBFGS([p], lr=0.01).step(closure)", None),
    ("optim.SGD(lr=0.1, momentum=0.9)", "optim.SGD([p], lr=0.1, momentum=0.9).step()", None),
])
def test_where_the_arguments_come_from_is_said(tree, spelling, call, noted):
    head, *_ = tree(spelling).split("\n\n")
    assert head.startswith(call)
    assert ("OpInfo database" in head) == (noted == "OpInfo")


def test_what_only_its_schema_tells_of_is_made_up(tree):
    head, *_ = tree("aten::_foreach_add.Scalar").split("\n\n")
    assert "arguments were generated" in head


def test_without_opinfo_arguments_are_made_up_and_the_reason_said(optrace, python, tmp_path):
    """If torch's test modules can't be imported, only the sample table's arguments are used."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "expecttest.py").write_text("raise OSError('no tests here')\n")
    environment = {"PYTHONPATH": folder}
    result = optrace("torch.renorm", "--python", python, environment=environment)
    assert result.returncode == 0, result.stderr
    assert "arguments were generated" in result.stdout
    assert "OpInfo database can't be imported" in result.stdout
    assert "no tests here" in result.stdout
    assert optrace("conv2d", "--python", python, environment=environment).returncode == 0


@pytest.mark.parametrize("arguments, inputs", [
    (["conv2d", "--shape", "2x3x8x8"], ["x  2×3×8×8 float32"]),
    (["F.conv2d", "--shape", "x=1x2x9x9", "--shape", "weight=4x2x3x3", "--shape",
      "bias=4"],
     ["x  1×2×9×9 float32", "weight  4×2×3×3 float32"]),
    (["add", "--shape", "scalar", "--shape", "y=3x2"], ["x  scalar float32", "y  3×2 float32"]),
    (["add", "--dtype", "float64"], ["x  64×64 float64", "y  64×64 float64"]),
    (["add", "--dtype", "y=int32"], ["x  64×64 float32", "y  64×64 int32"]),
    (["nn.Linear", "--dtype", "bfloat16", "--backward"], ["bfloat16"]),
    (["T", "--shape", "5x7"], ["x  5×7 float32"]),
    (["optim.Adam", "--shape", "2x3x4"], ["p  2×3×4 float32"]),
])
def test_shapes_and_dtypes_are_what_was_asked_for(tree, arguments, inputs):
    head, *_ = tree(*arguments).split("\n\n")
    for each in inputs:
        assert each in head


@pytest.mark.parametrize("op, given, call", [
    ("F.gelu", "torch.randn(2, 3), approximate='tanh'",
     "F.gelu(torch.randn(2, 3), approximate='tanh')"),
    ("Tensor.add_", "torch.ones(3), torch.ones(3)",
     "Tensor.add_(torch.ones(3), torch.ones(3))"),
    ("aten::add.Tensor", "torch.ones(3), torch.ones(3), alpha=math.pi",
     "torch.ops.aten.add.Tensor(torch.ones(3), torch.ones(3), alpha=math.pi)"),
    ("nn.Linear(8, 2)", "torch.randn(3, 8)  # a comment", "nn.Linear(8, 2)(torch.randn(3, 8)"),
    ("torch.zeros", "(2, 3)", "torch.zeros((2, 3))"),
])
def test_the_arguments_can_be_any_expression(tree, op, given, call):
    head, *_ = tree(op, "--input", given).split("\n\n")
    assert head.startswith(call)


def test_inputs_that_require_a_gradient_are_recorded_as_such(tree):
    """--requires-grad makes the result's autograd node, but no backward pass is run."""
    wanted = tree("aten::mul.Tensor", "--requires-grad", "--all")
    assert "collect_next_edges" in wanted
    assert "collect_next_edges" not in tree("aten::mul.Tensor", "--all")
    assert "Engine::execute" not in wanted


@pytest.mark.parametrize("module, shape", [
    ("nn.Linear(8, 4)", "32×8"), ("nn.Conv2d(16, 33, 5)", "4×16×56×56"),
    ("nn.MultiheadAttention(64, num_heads=4)", "2×16×64"), ("nn.LSTM(8, 4)", "8×4×8")])
def test_inputs_fit_the_arguments_of_a_module(optrace, python, module, shape):
    result = optrace(module, "--python", python)
    assert result.returncode == PASSED, result.stderr
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("input ")]
    assert f" {shape} float32" in line


@pytest.mark.parametrize("arguments, wrong, remedy", [
    # Detected without starting Python.
    (["conv2d", "--shape", "2,3"], "--shape: '2,3' is not a shape", "4x3x8x8"),
    (["conv2d", "--shape", "1w=2"], "--shape: '1w=2' has no name of a tensor", "weight=8x3x3x3"),
    (["conv2d", "--shape", "9999999x9999999"], "has too many elements", "4x3x8x8"),
    (["conv2d", "--dtype", "float 16"], "--dtype: 'float 16' is not a dtype", "weight=float16"),
    (["F.relu", "--input", "torch.ones(1)", "--shape", "3"],
     "--input and --shape can't be combined", "in --input"),
    # Detected by torch.
    (["conv2d", "--dtype", "float17"], "has no dtype 'float17'", "bfloat16"),
    (["conv2d", "--dtype", "nn"], "has no dtype 'nn'", "bfloat16"),
    (["conv2d", "--shape", "weights=2x3"], "no tensor named 'weights'", "Its tensors are: x."),
    (["torch.empty", "--shape", "2x3"], "the call has no tensor", "Omit the option"),
    (["F.conv2d", "--shape", "x=1x2x3"], "'F.conv2d' rejects these arguments (RuntimeError",
     "NAME=2x3"),
    (["linalg.svd", "--dtype", "int64"], "'linalg.svd' rejects these arguments (RuntimeError",
     "--dtype"),
    (["F.relu", "--input", "torch.ones(1"], "is not a list of arguments (SyntaxError",
     "torch.randn"),
    (["F.relu", "--input", "torch.ones(1)) or (2"], "is not a list of arguments", "brackets"),
    (["F.relu", "--input", "torch.no_such(1)"], "failed (AttributeError", "torch, nn, F"),
    (["F.relu", "--input", "1/0"], "failed (ZeroDivisionError", "torch, nn, F"),
    (["F.relu", "--input", ""], "rejects these arguments (TypeError", "Change --input"),
    (["optim.SGD", "--input", "1"], "an optimizer's step takes no arguments", "optim.SGD(lr=0.1)"),
    (["conv2d(3)"], "'conv2d(3)' has brackets", "--input"),
    (["nn.Linear(8, )2)"], "is not a list of arguments", "brackets"),
    (["nn.Linear(8)"], "rejects these arguments (TypeError", "in the brackets"),
    (["torch.argmax", "--backward"], "has no result with a backward pass", "--backward"),
])
def test_each_wrong_value_is_named_with_what_to_do(optrace, python, arguments, wrong, remedy):
    result = optrace(*arguments, "--python", python)
    assert result.returncode == USAGE, result.stderr
    assert result.stdout == ""
    message, *rest = result.stderr.splitlines()
    assert message.startswith("optrace: ")
    assert wrong in message
    assert remedy in "\n".join(rest)
    assert "Traceback" not in result.stderr

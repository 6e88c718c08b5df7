"""The arguments of `optrace OP`: from the sample table, from OpInfo or made up, and as changed by
--shape, --dtype, --input and --requires-grad.

Most calls are prepared and traced in one Python, which takes a second to start; a few of each kind
are given to the command, as it hands on its options and shows what comes back.
"""
import functools
import json

import pytest

USAGE = 2


class Call:
    """A call for trace_ops: the op, and what the command's options would give it."""

    def __init__(self, op, backward=False, **options):
        self.order = {"op": op, "backward": backward, **options}
        self.id = json.dumps(self.order)

    def __repr__(self):
        return self.id


def calls(*cases):
    """Returns the cases with readable names: each begins with its Call."""
    return [pytest.param(*case, id=repr(case[0])) for case in cases]


# (call, its text, what its arguments are taken from)
ORIGINS = calls(
    (Call("nn.Conv2d"), "nn.Conv2d(3, 8, 3)(x)", "table"),
    (Call("max.reduction_with_dim"), "torch.max(x, 1)", "opinfo"),
    (Call("T"), "OpInfo('T')(x)", "opinfo"),
    (Call("optim.LBFGS"), "optim.LBFGS([p], lr=0.01).step(closure)", "table"),
    (Call("optim.SGD(lr=0.1, momentum=0.9)"), "optim.SGD([p], lr=0.1, momentum=0.9).step()",
     "table"),
    (Call("aten::_foreach_add.Scalar"), "torch.ops.aten._foreach_add.Scalar(", "schema"),
)

# (call, {tensor: (shape, dtype)})
ADAPTED = calls(
    (Call("conv2d", shapes=[("", [2, 3, 8, 8])]), {"x": ([2, 3, 8, 8], "float32")}),
    (Call("add", shapes=[("", []), ("y", [3, 2])]),
     {"x": ([], "float32"), "y": ([3, 2], "float32")}),
    (Call("add", dtypes=[("", "float64")]),
     {"x": ([64, 64], "float64"), "y": ([64, 64], "float64")}),
    (Call("nn.Linear", backward=True, dtypes=[("", "bfloat16")]), {"x": ([32, 64], "bfloat16")}),
    (Call("T", shapes=[("", [5, 7])]), {"x": ([5, 7], "float32")}),
    (Call("optim.Adam", shapes=[("", [2, 3, 4])]), {"p": ([2, 3, 4], "float32")}),
    # Inputs fit the arguments of a module.
    (Call("nn.Linear(8, 4)"), {"x": ([32, 8], "float32")}),
    (Call("nn.Conv2d(16, 33, 5)"), {"x": ([4, 16, 56, 56], "float32")}),
    (Call("nn.MultiheadAttention(64, num_heads=4)"),
     dict.fromkeys(("query", "key", "value"), ([2, 16, 64], "float32"))),
    (Call("nn.LSTM(8, 4)"), {"x": ([8, 4, 8], "float32")}),
)

# (call, the beginning of its text)
EXPRESSIONS = calls(
    (Call("F.gelu", input="torch.randn(2, 3), approximate='tanh'"),
     "F.gelu(torch.randn(2, 3), approximate='tanh')"),
    (Call("Tensor.add_", input="torch.ones(3), torch.ones(3)"),
     "Tensor.add_(torch.ones(3), torch.ones(3))"),
    (Call("nn.Linear(8, 2)", input="torch.randn(3, 8)  # a comment"),
     "nn.Linear(8, 2)(torch.randn(3, 8)"),
    (Call("torch.zeros", input="(2, 3)"), "torch.zeros((2, 3))"),
)

# (call, what is wrong, what to do)
REFUSED = calls(
    (Call("conv2d", dtypes=[("", "nn")]), "has no dtype 'nn'", "bfloat16"),
    (Call("torch.empty", shapes=[("", [2, 3])]), "the call has no tensor", "Omit the option"),
    (Call("linalg.svd", dtypes=[("", "int64")]),
     "'linalg.svd' rejects these arguments (RuntimeError", "--dtype"),
    (Call("F.relu", input="torch.ones(1)) or (2"), "is not a list of arguments", "brackets"),
    (Call("F.relu", input="torch.no_such(1)"), "failed (AttributeError", "torch, nn, F"),
    (Call("F.relu", input="1/0"), "failed (ZeroDivisionError", "torch, nn, F"),
    (Call("F.relu", input=""), "rejects these arguments (TypeError", "Change --input"),
    (Call("optim.SGD", input="1"), "an optimizer's step takes no arguments", "optim.SGD(lr=0.1)"),
    (Call("conv2d(3)"), "'conv2d(3)' has brackets", "--input"),
    (Call("nn.Linear(8, )2)"), "is not a list of arguments", "brackets"),
    (Call("nn.Linear(8)"), "rejects these arguments (TypeError", "in the brackets"),
    (Call("torch.argmax", backward=True), "has no result with a backward pass", "--backward"),
)


@pytest.fixture(scope="module")
def prepared(build, python, run_program, tmp_path_factory):
    """Call -> the answer of trace_ops: all calls are traced, or refused, in one Python."""
    orders = [case.values[0].order for case in (*ORIGINS, *ADAPTED, *EXPRESSIONS, *REFUSED)]
    file = tmp_path_factory.mktemp("calls") / "calls"
    file.write_text("".join(json.dumps({**order, "number": number}) + "\n"
                            for number, order in enumerate(orders)))
    run = run_program(["sh", "-c", '"$1" "$2" < "$3"', "sh", build / "trace_ops", python, file],
                      timeout=600)
    assert run.returncode == 0, run.stderr
    answers = {answer["number"]: answer for answer in map(json.loads, run.stdout.splitlines())}
    assert answers.keys() == set(range(len(orders)))
    return {json.dumps(order): answers[number] for number, order in enumerate(orders)}


@pytest.fixture(scope="module")
def tree(optrace, python):
    """tree(*arguments) -> the command's output: the head of the tree and its frames."""

    @functools.cache
    def run(*arguments):
        result = optrace(*arguments, "--python", python)
        assert result.returncode == 0, result.stderr
        return result.stdout

    return run


def traced(prepared, call):
    """Returns the answer for a call that was traced and had the same results as untraced."""
    answer = prepared[call.id]
    assert "error" not in answer, answer
    assert not answer["repeatable"] or answer["equal"], answer
    return answer


@pytest.mark.parametrize("call, text, origin", ORIGINS)
def test_where_the_arguments_come_from_is_said(prepared, call, text, origin):
    answer = traced(prepared, call)
    assert answer["call"].startswith(text)
    assert answer["sample_from"] == origin
    said = "\n".join(answer["warnings"])
    assert ("OpInfo database" in said) == (origin == "opinfo")
    assert ("arguments were generated" in said) == (origin == "schema")


def test_without_opinfo_arguments_are_made_up_and_the_reason_said(optrace, python, tmp_path):
    """If torch's test modules can't be imported, only the sample table's arguments are used."""
    (tmp_path / "expecttest.py").write_text("raise OSError('no tests here')\n")
    result = optrace("torch.renorm", "--python", python, environment={"PYTHONPATH": tmp_path})
    assert result.returncode == 0, result.stderr
    assert "arguments were generated" in result.stdout
    assert "OpInfo database can't be imported" in result.stdout
    assert "no tests here" in result.stdout
    assert optrace("conv2d", "--python", python,
                   environment={"PYTHONPATH": tmp_path}).returncode == 0


def test_opinfo_needs_no_package_of_pytorchs_tests(optrace, python, tmp_path):
    """PyTorch's test modules import expecttest, which few users have installed."""
    (tmp_path / "expecttest.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'expecttest'\", name='expecttest')\n")
    result = optrace("torch.renorm", "--python", python, environment={"PYTHONPATH": tmp_path})
    assert result.returncode == 0, result.stderr
    head, *_ = result.stdout.split("\n\n")
    assert head.startswith("torch.renorm(x, ")
    assert "are a sample of PyTorch's own OpInfo database" in head
    assert "can't be imported" not in result.stdout + result.stderr


@pytest.mark.parametrize("call, tensors", ADAPTED)
def test_shapes_and_dtypes_are_what_was_asked_for(prepared, call, tensors):
    inputs = {one["name"]: (one["shape"], one["dtype"]) for one in traced(prepared, call)["inputs"]}
    assert {name: inputs.get(name) for name in tensors} == tensors


@pytest.mark.parametrize("arguments, inputs", [
    (["F.conv2d", "--shape", "1x2x9x9", "--shape", "weight=4x2x3x3", "--shape", "bias=4",
      "--dtype", "float64"],
     ["x  1×2×9×9 float64", "weight  4×2×3×3 float64", "bias  4 float64"]),
    (["add", "--shape", "scalar", "--dtype", "y=int32"],
     ["x  scalar float32", "y  64×64 int32"]),
])
def test_the_head_shows_shapes_and_dtypes(tree, arguments, inputs):
    head, *_ = tree(*arguments).split("\n\n")
    for each in inputs:
        assert each in head


@pytest.mark.parametrize("call, text", EXPRESSIONS)
def test_the_arguments_can_be_any_expression(prepared, call, text):
    assert traced(prepared, call)["call"].startswith(text)


def test_the_head_shows_the_expression(tree):
    arguments = "torch.ones(3), torch.ones(3), alpha=math.pi"
    head, *_ = tree("aten::add.Tensor", "--input", arguments).split("\n\n")
    assert head.startswith(f"torch.ops.aten.add.Tensor({arguments})")


def test_inputs_that_require_a_gradient_are_recorded_as_such(tree):
    """--requires-grad makes the result's autograd node, but no backward pass is run."""
    wanted = tree("aten::mul.Tensor", "--requires-grad", "--all")
    assert "collect_next_edges" in wanted
    assert "collect_next_edges" not in tree("aten::mul.Tensor", "--all")
    assert "Engine::execute" not in wanted


@pytest.mark.parametrize("call, wrong, remedy", REFUSED)
def test_each_wrong_value_is_refused_with_what_to_do(prepared, call, wrong, remedy):
    answer = prepared[call.id]
    assert wrong in answer["error"]
    assert remedy in answer["remedy"]
    assert "Traceback" not in answer["error"] + answer["remedy"]
    assert answer["status"] == USAGE


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
    (["conv2d", "--shape", "weights=2x3"], "no tensor named 'weights'", "Its tensors are: x."),
    (["F.conv2d", "--shape", "x=1x2x3"], "'F.conv2d' rejects these arguments (RuntimeError",
     "NAME=2x3"),
    (["F.relu", "--input", "torch.ones(1"], "is not a list of arguments (SyntaxError",
     "torch.randn"),
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

"""Calls of cuDNN, cuBLAS and cuBLASLt, decoded into the report of a dry run."""
import json

import pytest

PROGRAM = """
import torch
import torch.nn as nn
import torch.nn.functional as F

def random(*shape, dtype=torch.float):
    return torch.randn(*shape, device="cuda", dtype=dtype)

def convolution_forward():
    nn.Conv2d(8, 6, 3, stride=2, padding=1, dilation=1, groups=2).cuda()(random(4, 8, 9, 9))

def convolution_backward():
    F.conv1d(random(2, 4, 20).requires_grad_(), random(6, 4, 3).requires_grad_()).sum().backward()

def convolution_in_half():
    x = random(2, 8, 8, 8, dtype=torch.half).contiguous(memory_format=torch.channels_last)
    w = random(8, 8, 1, 1, dtype=torch.half).contiguous(memory_format=torch.channels_last)
    F.conv2d(x, w)

def convolution_deterministic():
    with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
        w = random(6, 4, 3, 3).requires_grad_()
        F.conv2d(random(2, 4, 8, 8), w).sum().backward()

def convolution_fused():
    torch.cudnn_convolution_relu(random(2, 4, 8, 8), random(6, 4, 3, 3), random(6), (1, 1), (1, 1),
                                 (1, 1), 1)

def convolution_refused():
    torch.cudnn_convolution(random(2, 4, 8, 8, dtype=torch.bfloat16),
                            random(6, 4, 3, 3, dtype=torch.bfloat16), (0, 0), (1, 1), (1, 1), 1,
                            False, False, False)

def batch_norm():
    nn.BatchNorm2d(8).cuda()(random(2, 8, 4, 4).requires_grad_()).sum().backward()

def lstm():
    nn.LSTM(10, 20, num_layers=2, bidirectional=True).cuda()(random(5, 3, 10))[0].sum().backward()

def ctc():
    probabilities = random(50, 4, 20).log_softmax(2)
    F.ctc_loss(probabilities, torch.ones(40, dtype=torch.int32), (50,) * 4, (10,) * 4)

def attention():
    from torch.nn.attention import SDPBackend, sdpa_kernel
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        F.scaled_dot_product_attention(*(random(2, 4, 64, 32, dtype=torch.half) for _ in range(3)))

def product():
    random(4, 5) @ random(5, 6)

def product_in_half():
    random(3, 4, 5, dtype=torch.half).bmm(random(3, 6, 5, dtype=torch.half).transpose(1, 2))

def epilogue():
    torch._addmm_activation(random(32), random(8, 16), random(16, 32), use_gelu=True)

def integers():
    a, b = (torch.ones(shape, dtype=torch.int8, device="cuda") for shape in ((32, 16), (16, 24)))
    torch._int_mm(a, b)

def integers_refused():
    a, b = (torch.ones(shape, dtype=torch.int8, device="cuda") for shape in ((16, 32), (16, 24)))
    torch._int_mm(a.t(), b)

def fp8():
    a, b = (torch.empty(rows, 16, dtype=torch.float8_e4m3fn, device="cuda") for rows in (32, 48))
    scale = torch.ones((), device="cuda")
    torch._scaled_mm(a, b.t(), scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16,
                     use_fast_accum=True)

def triangular():
    torch.linalg.solve_triangular(random(4, 4), random(4, 3), upper=True)

for name in NAMES:
    try:
        globals()[name]()
        print(name, "done")
    except RuntimeError as error:
        print(name, str(error).splitlines()[0])
"""

ON_HOPPER = ["convolution_forward", "convolution_backward", "convolution_in_half",
             "convolution_deterministic", "convolution_fused", "batch_norm", "lstm", "ctc",
             "attention", "product", "product_in_half", "epilogue", "integers", "integers_refused",
             "fp8", "triangular"]
ON_TURING = ["convolution_refused", "convolution_forward", "attention"]


class Calls:
    """The library calls in a report, by the program's function that they are under."""

    def __init__(self, report, output):
        self.output = dict(line.split(" ", 1) for line in output.splitlines())
        self._calls = {}
        pending = [(root, None) for root in report["roots"]]
        while pending:
            frame, function = pending.pop(0)
            last = frame["name"].rsplit(".", 1)[-1]
            if frame["layer"] == "python" and last in self.output:
                function = last
            for call in (frame["detail"] or {}).get("calls", []):
                self._calls.setdefault(function, []).append(
                    {"call": frame["name"], **call})
            pending += [(child, function) for child in frame["children"]]

    def __call__(self, function, kind="library"):
        return [call for call in self._calls.get(function, []) if call["kind"] == kind]

    def operations(self, function):
        """Returns the operations of all cuDNN graphs of a function, in one list."""
        return [operation for call in self(function) for operation in call["operations"]]


@pytest.fixture(scope="module")
def called(optrace, python, tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")

    def run(part, names):
        script, path = folder / f"{part}.py", folder / f"{part}.json"
        script.write_text(f"NAMES = {names}\n{PROGRAM}")
        result = optrace("run", f"--dry-run={part}", "--python", python, "--format", "json", "-o",
                         path, script, timeout=300)
        assert result.returncode == 0, result.stderr
        return Calls(json.loads(path.read_text()), result.stdout)

    return run


@pytest.fixture(scope="module")
def hopper(called):
    return called("sm_90", ON_HOPPER)


@pytest.fixture(scope="module")
def turing(called):
    return called("sm_75", ON_TURING)


def test_what_should_run_runs(hopper):
    refused = {"integers_refused"}
    assert {name for name, said in hopper.output.items() if said != "done"} == refused, \
        hopper.output
    for name in ON_HOPPER:
        assert hopper(name) or name in refused, f"{name} called no library"


def test_a_convolution(hopper):
    (call,) = hopper("convolution_forward")
    assert call["call"] == "cudnnBackendExecute"
    (operation,) = call["operations"]
    assert operation["operation"] == "convolution forward" and operation["groups"] == 2
    assert operation["x"]["dims"] == [4, 8, 9, 9] and operation["w"]["dims"] == [6, 4, 3, 3]
    assert operation["y"]["dims"] == [4, 6, 5, 5] and operation["y"]["strides"] == [150, 25, 5, 1]
    assert operation["x"]["type"] == "float"
    convolution = operation["conv"]
    assert convolution["filter_strides"] == [2, 2] and convolution["dilations"] == [1, 1]
    assert convolution["pre_paddings"] == convolution["post_paddings"] == [1, 1]
    assert convolution["comp_type"] == "float" and convolution["conv_mode"] == "cross_correlation"
    # The engine that the real heuristics would choose is unknown.
    assert call["heuristic"] == "emulated" and isinstance(call["engine"], int)
    assert call["workspace"] >= 0 and call["knobs"] == {}


def test_both_ways_of_a_convolution(hopper):
    operations = {operation["operation"]: operation
                  for operation in hopper.operations("convolution_backward")}
    assert sorted(operations) == ["convolution backward data", "convolution backward filter",
                                  "convolution forward"]
    # One spatial dimension becomes two.
    assert operations["convolution backward data"]["dx"]["dims"] == [2, 4, 1, 20]
    assert operations["convolution backward filter"]["dw"]["dims"] == [6, 4, 1, 3]
    assert operations["convolution backward filter"]["dy"]["dims"] == [2, 6, 1, 18]


def test_types_and_layouts(hopper):
    (operation,) = hopper.operations("convolution_in_half")
    assert operation["x"]["type"] == operation["y"]["type"] == "half"
    assert operation["x"]["strides"] == [512, 1, 64, 8]
    assert operation["conv"]["comp_type"] == "float"


def test_the_engine_follows_what_is_allowed(hopper):
    free = {call["engine"] for call in hopper("convolution_backward")}
    bound = {call["engine"] for call in hopper("convolution_deterministic")}
    assert len(hopper("convolution_deterministic")) == 2 and not free & bound


def test_a_fused_convolution(hopper):
    operations = hopper.operations("convolution_fused")
    assert [operation["operation"] for operation in operations] == [
        "convolution forward", "pointwise", "pointwise", "pointwise"]
    assert [operation["pw"]["mode"] for operation in operations[1:]] == ["add", "add", "relu_fwd"]
    assert operations[0]["y"]["virtual"] is True and "virtual" not in operations[3]["y"]


def test_attention_is_one_graph(hopper):
    (call,) = hopper("attention")
    kinds = [operation["operation"] for operation in call["operations"]]
    assert kinds.count("matmul") == 2 and "reduction" in kinds
    assert call["operations"][0]["a"]["dims"] == [2, 4, 64, 32]


def test_batch_norm(hopper):
    forward, backward = sorted(hopper("batch_norm"), key=lambda call: "dy" in call)
    assert forward["call"] == "cudnnBatchNormalizationForwardTrainingEx"
    assert backward["call"] == "cudnnBatchNormalizationBackwardEx"
    assert forward["mode"] == "spatial" and forward["scale_bias_mean_var"]["dims"] == [1, 8, 1, 1]
    assert forward["running_statistics"] is True and forward["epsilon"] == 1e-05


def test_a_recurrent_network(hopper):
    calls = {call["call"]: call for call in hopper("lstm")}
    assert sorted(calls) == ["cudnnRNNBackwardData_v8", "cudnnRNNBackwardWeights_v8",
                             "cudnnRNNForward"]
    forward = calls["cudnnRNNForward"]
    assert forward["cell"] == "lstm" and forward["direction"] == "bidirectional"
    assert (forward["input_size"], forward["hidden_size"], forward["layers"]) == (10, 20, 2)
    assert forward["forward_mode"] == "training"
    assert forward["x"]["max_sequence_length"] == 5 and forward["x"]["batch"] == 3
    # Two directions of 4 gates: weights of the input (10, or both directions' 40) and of the state
    # (20), and two biases.
    weights = sum(2 * 4 * 20 * (size + 20 + 2) for size in (10, 40))
    assert forward["weight_space"] == 4 * weights


def test_ctc(hopper):
    (call,) = hopper("ctc")
    assert call["call"] == "cudnnCTCLoss" and call["probabilities"]["dims"] == [50, 4, 20]
    assert call["max_label_length"] == 10 and call["normalization"] == "softmax"


def test_products(hopper):
    (call,) = hopper("product")
    # cuBLAS is column-major, so this is the transposed product.
    assert call["call"].startswith("cublasSgemm")
    assert (call["m"], call["n"], call["k"]) == (6, 4, 5)
    assert call["transa"] == call["transb"] == "n" and call["a"] == {"type": "float32", "ld": 6}
    (call,) = hopper("product_in_half")
    assert (call["m"], call["n"], call["k"], call["batch"]) == (6, 4, 5, 3)
    assert (call["transa"], call["transb"], call["batch_kind"]) == ("t", "n", "strided")
    assert call["a"] == {"type": "float16", "ld": 5, "stride": 30}
    assert call["compute_type"] == "32f"


def test_an_epilogue(hopper):
    (call,) = hopper("epilogue")
    assert call["call"] == "cublasLtMatmul" and call["epilogue"] == "gelu_bias" and call["bias"]
    assert (call["m"], call["n"], call["k"]) == (32, 8, 16)
    assert call["d"] == {"rows": 32, "cols": 8, "ld": 32, "order": "col", "type": "float32"}
    assert call["algorithm"]["split_k"] == 1 and call["heuristic"] == "emulated"


def test_small_types(hopper):
    (call,) = hopper("integers")
    assert call["a"]["type"] == "int8" and call["d"]["type"] == "int32"
    assert call["compute_type"] == "32i"
    (call,) = hopper("fp8")
    assert call["a"]["type"] == call["b"]["type"] == "float8_e4m3"
    assert (call["transa"], call["transb"]) == ("t", "n")
    assert call["scales"] == ["a", "b"] and call["fast_accumulation"] is True


def test_cublaslt_refuses_a_layout(hopper):
    assert "CUBLAS_STATUS_NOT_SUPPORTED" in hopper.output["integers_refused"]
    assert not hopper("integers_refused")
    refused = hopper("integers_refused", kind="refused")
    assert refused and all("transposed" in call["why"] for call in refused)


def test_cudnn_refuses_a_type(turing):
    assert "unable to find an engine" in turing.output["convolution_refused"]
    refused = turing("convolution_refused", kind="refused")
    assert refused and all("bfloat16" in call["why"] for call in refused)
    assert {call["status"] for call in refused} == {"CUDNN_STATUS_NOT_SUPPORTED"}


def test_an_older_part_decides_otherwise(hopper, turing):
    # It has no tensor cores for float, and no cuDNN attention.
    assert turing("convolution_forward")[0]["engine"] != hopper("convolution_forward")[0]["engine"]
    assert turing.output["attention"].startswith("No available kernel")

"""Calls of real CUDA libraries, intercepted and recorded.

There is no GPU: the emulated libraries stand in for the real ones and report nothing themselves.
The recorded calls must be those that they report otherwise.
"""
import json

import pytest

PROGRAM = """
import torch
import torch.nn.functional as F

def random(*shape, dtype=torch.float):
    return torch.randn(*shape, device="cuda", dtype=dtype)

def convolution():
    w = random(6, 4, 3, 3).requires_grad_()
    F.conv2d(random(2, 8, 9, 9), w, stride=2, padding=1, groups=2).sum().backward()

def attention():
    from torch.nn.attention import SDPBackend, sdpa_kernel
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        F.scaled_dot_product_attention(*(random(2, 4, 64, 32, dtype=torch.half) for _ in range(3)))

def product():
    random(4, 5) @ random(5, 6)

def batched():
    random(3, 4, 5, dtype=torch.half).bmm(random(3, 6, 5, dtype=torch.half).transpose(1, 2))

def epilogue():
    torch._addmm_activation(random(32), random(8, 16), random(16, 32), use_gelu=True)

def transformed():
    torch.fft.fft(random(8, 16))

def bad():
    torch.empty(2, 3, device="cuda", dtype=torch.int8)
    a, b = (torch.ones(shape, dtype=torch.int8, device="cuda") for shape in ((16, 32), (16, 24)))
    torch._int_mm(a.t(), b)

def normalized():
    torch.nn.BatchNorm2d(4).cuda()(random(2, 4, 8, 8).contiguous(memory_format=torch.channels_last))

def recurrent():
    torch.nn.LSTM(8, 8).cuda()(random(3, 2, 8))

def decomposed():
    torch.linalg.cholesky(random(8, 8))

for work in (convolution, attention, product, batched, epilogue, transformed, bad, normalized,
             recurrent, decomposed):
    try:
        work()
    except RuntimeError as error:
        print(work.__name__, str(error).splitlines()[0])
"""
FUNCTIONS = ("convolution", "attention", "product", "batched", "epilogue", "transformed", "bad",
             "normalized", "recurrent", "decomposed")


def library_calls(report):
    """Returns the program's function -> [(the library's function, decoded call, frame)]."""
    calls = {name: [] for name in FUNCTIONS}
    pending = [(root, None) for root in report["roots"]]
    while pending:
        frame, function = pending.pop(0)
        last = frame["name"].rsplit(".", 1)[-1]
        if frame["layer"] == "python" and last in calls:
            function = last
        for call in (frame["detail"] or {}).get("calls", []):
            if function is not None and call["kind"] in ("library", "failed"):
                calls[function].append((call.get("call", frame["name"]), call, frame))
        pending += [(child, function) for child in frame["children"]]
    return calls


@pytest.fixture(scope="module", params=["reference",
                                        pytest.param("newest", marks=pytest.mark.verify)])
def both(request, optrace, tmp_path_factory):
    """The calls that the emulated libraries report, and those that are intercepted."""
    python = request.getfixturevalue("python" if request.param == "reference" else "newest_python")
    folder = tmp_path_factory.mktemp("cuda_calls")
    script = folder / "program.py"
    script.write_text(PROGRAM)
    told = []
    for name, env in (("told", {}), ("recorded", {"OPTRACE_DEVICE_ACTIVITY": "1"})):
        path = folder / f"{name}.json"
        result = optrace("run", "--dry-run=sm_90", "--python", python, "--format", "json", "-o",
                         path, script, timeout=400, environment=env)
        assert result.returncode == 0, result.stderr
        told.append((library_calls(json.loads(path.read_text())), result.stdout, result.stderr))
    return told


def without(call, *names):
    return {key: value for key, value in call.items() if key not in ("call", *names)}


def tensors_unnumbered(value):
    """Returns the value without the ids of tensors, which the program counts itself."""
    if isinstance(value, dict):
        return {key: tensors_unnumbered(one) for key, one in value.items() if key != "uid"}
    return [tensors_unnumbered(one) for one in value] if isinstance(value, list) else value


def test_programs_run_as_they_do_otherwise(both):
    (_, output, _), (_, recorded_output, errors) = both
    assert output == recorded_output and output.count("\n") == 1 and output.startswith("bad ")
    assert "can't be used" not in errors and "missing from the trace" not in errors


def test_graphs_of_cudnn(both):
    (told, *_), (recorded, *_) = both
    for function in ("convolution", "attention"):
        graphs = [[tensors_unnumbered(without(call, "heuristic"))
                   for name, call, _ in calls[function] if name == "cudnnBackendExecute"]
                  for calls in (told, recorded)]
        assert graphs[0] == graphs[1] and graphs[0]
        assert all("engine" in graph and "workspace" in graph for graph in graphs[1])
    assert not any("heuristic" in call for calls in recorded.values() for _, call, _ in calls)


def test_products(both):
    (told, *_), (recorded, *_) = both
    for function, library in (("product", "cublas"), ("batched", "cublas"),
                              ("epilogue", "cublasLt")):
        sizes = [[(name, *(call[key] for key in "mnk"), call["calls"])
                  for name, call, _ in calls[function] if name.startswith(library) and "m" in call]
                 for calls in (told, recorded)]
        assert sizes[0] == sizes[1] and sizes[0], function
    (fused,) = [call for name, call, _ in recorded["epilogue"] if name == "cublasLtMatmul"]
    (expected,) = [call for name, call, _ in told["epilogue"] if name == "cublasLtMatmul"]
    assert without(fused, "algorithm") == without(expected, "algorithm", "heuristic")
    assert fused["epilogue"] == "gelu_bias"


def test_calls_of_functions_that_the_emulation_implements(both):
    recorded, _, _ = both[1]
    for function, expected in (("normalized", "cudnnBatchNormalizationForwardTrainingEx"),
                               ("recurrent", "cudnnRNNForward")):
        assert expected in [name for name, _, _ in recorded[function]], recorded[function]


def test_calls_from_a_library_that_pytorch_loads_later(both):
    """libtorch_cuda_linalg.so, which the first decomposition loads."""
    (told, *_), (recorded, *_) = both
    for calls in (told, recorded):
        (call,) = [call for name, call, _ in calls["decomposed"] if name == "cusolverDnXpotrf"]
        assert call["n"] == 8


def test_calls_hang_under_who_makes_them(both):
    recorded, _, _ = both[1]
    for function, caller in (("product", "at::cuda::blas::gemm"),
                             ("batched", "at::cuda::blas::bgemm"),
                             ("transformed", "_exec_fft")):
        frames = [frame["name"] for name, call, frame in recorded[function]
                  if call["kind"] == "library"]
        assert any(caller in frame or frame.startswith("cu") for frame in frames), frames


def test_a_call_that_fails(both):
    recorded, _, _ = both[1]
    failed = [(name, call["error"]) for name, call, _ in recorded["bad"]
              if call["kind"] == "failed"]
    assert any(name.startswith("cublas") and error != 0 for name, error in failed), recorded["bad"]


def test_a_plan_that_the_first_run_of_a_call_creates(optrace, python):
    # PyTorch keeps cuDNN's plans, and the recorded run is not the first one.
    result = optrace("conv2d", "--dry-run=sm_90", "--python", python, "--format", "json",
                     environment={"OPTRACE_DEVICE_ACTIVITY": "1"})
    assert result.returncode == 0, result.stderr
    pending, plans = list(json.loads(result.stdout)["roots"]), []
    while pending:
        frame = pending.pop()
        pending += frame["children"]
        if frame["name"] == "cudnnBackendExecute" and "calls" in (frame["detail"] or {}):
            plans += frame["detail"]["calls"]
    (plan,) = plans
    assert plan["operations"][0]["operation"] == "convolution forward"

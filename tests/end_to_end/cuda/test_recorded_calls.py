"""Calls recorded on real GPUs (fixtures/cuda/recorded-calls.jsonl.gz), replayed in dry runs.

One process for each GPU model replays all of its calls: tests/cuda_workloads/replay.py.
"""
import collections
import gzip
import json
import os
import pathlib
import re

import pytest

REPLAY = pathlib.Path(__file__).resolve().parents[2] / "cuda_workloads/replay.py"
FIXTURE = pathlib.Path(__file__).resolve().parents[3] / "fixtures/cuda/recorded-calls.jsonl.gz"

# The name of a GPU model in the recordings -> its name for --dry-run.
MODELS = {"NVIDIA H100 80GB HBM3": "h100-sxm", "NVIDIA A100-PCIE-40GB": "a100-pcie-40gb"}

# Prefix of a library's functions -> parts of its kernels' names. Other kernels are PyTorch's own.
LIBRARIES = {"cudnn": ("cudnn",),
             "cublas": ("gemm", "cutlass", "gemv", "cublas", "dot_kernel", "reduce_1Block_kernel",
                        "splitKreduce")}

# Kernels that torch 2.6 launches instead of those recorded with 2.5: (pattern of the recorded name,
# pattern of the launched name) -> number of cases.
CHANGED_SINCE_2_5 = {
    # float16_copy_kernel_cuda is new in 2.6, for conversions from float to half precision.
    ("unrolled_elementwise_kernel<.*direct_copy_kernel_cuda", "float16_copy_kernel_cuda"): 18,
    # A thread processes more than four elements if they are small, so there are fewer blocks.
    ("vectorized_elementwise_kernel<.*(FillFunctor<(c10::Half|bool)>|bitwise_not_kernel_cuda)",
     "vectorized_elementwise_kernel<"): 49,
    # Recorded under autocast, with inputs of two types, only one of which is in the recording.
    ("elementwise_kernel<.*direct_copy_kernel_cuda", "CatArrayBatchedCopy"): 4,
}


def library_of(kernel):
    """Returns the library that a kernel belongs to; None if it is PyTorch's own."""
    name = kernel["name"]
    if "at::native" in name and "cudnn" not in name or "pytorch_flash" in name:
        return None
    return next((library for library, marks in LIBRARIES.items()
                 if any(mark in name for mark in marks)), None)


@pytest.fixture(scope="module")
def cases():
    """GPU model -> id -> case."""
    found = collections.defaultdict(dict)
    with gzip.open(FIXTURE, "rt") as lines:
        for line in lines:
            case = json.loads(line)
            found[case["device_name"]][case["id"]] = case
    return found


@pytest.fixture(scope="module")
def replayed(optrace, python, run_program, tmp_path_factory):
    """replayed(model as recorded) -> id -> the dry run's result."""
    folder = tmp_path_factory.mktemp("replays")
    names = ["LD_PRELOAD", "OPTRACE_DRY_RUN", "OPTRACE_DRY_RUN_DEVICES",
             "OPTRACE_DRY_RUN_VERSIONS"]
    script = folder / "environment.py"
    script.write_text("import json, os, torch\n"
                      f"print(json.dumps({{name: os.environ[name] for name in {names}}}))\n")
    shown = optrace("run", "--dry-run=h100", "--python", python, "-o", folder / "report", script,
                    timeout=400)
    assert shown.returncode == 0, shown.stderr
    environment = {**os.environ, **json.loads(shown.stdout)}
    assert environment["OPTRACE_DRY_RUN"] == "h100"

    def replay(recorded):
        result = run_program([python, "-B", "-W", "ignore", REPLAY, FIXTURE, recorded], timeout=300,
                             env={**environment, "OPTRACE_DRY_RUN": MODELS[recorded]})
        assert result.returncode == 0, result.stderr[-4000:]
        lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
        return {line["id"]: line for line in lines}

    return replay


def same_libraries(case, seen):
    wanted = {library_of(kernel) for kernel in case["kernels"]} - {None}
    if wanted and "conv" in case["op"]:
        wanted = {"cudnn"}  # cuDNN contains kernels with cuBLAS's names.
    called = {name for name in LIBRARIES for call in seen["libraries"] if call.startswith(name)}
    # The library kernels of a case are from one call: transpositions, product, last reduction.
    return called == wanted and len(seen["libraries"]) == len(wanted)


def own(kernels):
    return [kernel for kernel in kernels if library_of(kernel) is None]


def exactly(kernel):
    return kernel["name"], kernel["grid"], kernel["block"], kernel["smem"]


def whatever_its_template_arguments(kernel):
    return kernel["name"].split("<")[0], kernel["grid"], kernel["block"], kernel["smem"]


def test_the_same_torch_does_what_an_h100_did(cases, replayed, python):
    recorded = cases["NVIDIA H100 80GB HBM3"]
    seen = replayed("NVIDIA H100 80GB HBM3")
    assert seen.keys() == recorded.keys() and len(seen) == 306
    different = [(case["op"], case["dims"], seen[key]) for key, case in recorded.items()
                 if [*map(exactly, own(case["kernels"]))] != [*map(exactly, seen[key]["kernels"])]
                 or not same_libraries(case, seen[key])]
    assert different == []
    assert sum(1 for case in recorded.values() if own(case["kernels"])) == 237
    assert sum(1 for each in seen.values() if each["libraries"]) == 81


@pytest.mark.verify
def test_another_torch_did_nearly_the_same_on_an_a100(cases, replayed):
    recorded = cases["NVIDIA A100-PCIE-40GB"]
    seen = replayed("NVIDIA A100-PCIE-40GB")
    assert seen.keys() == recorded.keys() and len(seen) == 1037
    same, changed, unexplained = 0, collections.Counter(), []
    for key, case in recorded.items():
        there, here = own(case["kernels"]), seen[key]["kernels"]
        assert same_libraries(case, seen[key]), (case["op"], case["dims"], seen[key])
        if [*map(whatever_its_template_arguments, there)] == \
                [*map(whatever_its_template_arguments, here)]:
            same += 1
            continue
        reasons = [reason for reason in CHANGED_SINCE_2_5 if there and here
                   and re.search(reason[0], there[0]["name"])
                   and re.search(reason[1], here[0]["name"])]
        changed.update(reasons[:1])
        unexplained += [] if reasons else [(case["op"], case["dims"], there, seen[key])]
    assert unexplained == []
    assert changed == CHANGED_SINCE_2_5
    assert same == 966


@pytest.mark.verify
def test_the_number_of_multiprocessors_decides_on_grids(cases, replayed):
    """With another number of multiprocessors, grids differ from the H100's."""
    recorded = cases["NVIDIA H100 80GB HBM3"]
    before = MODELS["NVIDIA H100 80GB HBM3"]
    MODELS["NVIDIA H100 80GB HBM3"] = "h100-sxm,sms=66"
    try:
        seen = replayed("NVIDIA H100 80GB HBM3")
    finally:
        MODELS["NVIDIA H100 80GB HBM3"] = before
    different = [key for key, case in recorded.items()
                 if [*map(exactly, own(case["kernels"]))] != [*map(exactly, seen[key]["kernels"])]]
    assert 0 < len(different) < len(recorded) / 2

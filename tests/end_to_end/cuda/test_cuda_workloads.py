"""The CUDA workloads (tests/cuda_workloads/) on emulated GPUs, where all of them finish."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

WORKLOADS = pathlib.Path(__file__).resolve().parents[2] / "cuda_workloads"
sys.path.insert(0, str(WORKLOADS))

# Workloads that PyTorch itself refuses: (workload, GPU; None: any) -> part of the message.
REFUSED = {
    # Requires compute capability 8.9.
    ("fp8_scaled_mm", "sm_80"): "_scaled_mm is only supported on CUDA devices",
}

SHOW_ENVIRONMENT = """
import json, os, torch
names = ["LD_PRELOAD", "OPTRACE_DRY_RUN", "OPTRACE_DRY_RUN_DEVICES", "OPTRACE_DRY_RUN_VERSIONS",
         "TRITON_LIBCUDA_PATH"]
print(json.dumps({name: os.environ.get(name) for name in names}))
"""


@pytest.fixture(scope="module")
def dry_environment(optrace, python, newest_python, tmp_path_factory):
    """dry_environment("reference" or "newest", arch) -> environment of a dry run's processes."""
    folder = tmp_path_factory.mktemp("dry")
    script = folder / "show_environment.py"
    script.write_text(SHOW_ENVIRONMENT)
    shown = {}

    def environment(torch, arch):
        if torch not in shown:
            result = optrace("run", "--dry-run=sm_90", "--devices", 2, "--python",
                             newest_python if torch == "newest" else python,
                             "--format", "json", "-o", folder / "report.json", script, timeout=400)
            assert result.returncode == 0, result.stderr
            shown[torch] = json.loads(result.stdout)
        assert shown[torch]["OPTRACE_DRY_RUN"] == "sm_90"
        # The test has its own caches of Triton and Inductor.
        return {**os.environ, **shown[torch], "OPTRACE_DRY_RUN": arch,
                "TRITON_CACHE_DIR": str(folder / "triton"),
                "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}

    return environment


@pytest.fixture(scope="module")
def interpreter(python, newest_python):
    return {"reference": python, "newest": newest_python}


@pytest.mark.parametrize("torch, arch", [
    ("reference", "sm_90"),
    *(pytest.param(*pair, marks=pytest.mark.verify) for pair in (
        ("reference", "sm_80"), ("newest", "sm_80"), ("newest", "sm_90")))])
def test_every_workload_finishes(run_program, dry_environment, interpreter, torch, arch):
    from workloads import WORKLOADS as workloads
    assert len(workloads) >= 70
    result = run_program([interpreter[torch], "-B", "-W", "ignore", WORKLOADS / "run_workloads.py"],
                         timeout=600, env=dry_environment(torch, arch))
    *lines, last = [json.loads(line) for line in result.stdout.splitlines()
                    if line.startswith("{")]
    outcomes = {line["name"]: line["error"] for line in lines if "name" in line}
    assert list(outcomes) == list(workloads), result.stderr[-4000:]
    refused = {name: message for (name, where), message in REFUSED.items() if where in (arch, None)}
    failed = {name: error for name, error in outcomes.items() if error is not None}
    assert failed.keys() == refused.keys(), failed
    for name, message in refused.items():
        assert message in failed[name]
    assert last == {"unimplemented": 0}, result.stderr[-4000:]


def library_calls(report):
    """Returns function -> its decoded calls."""
    found = {}
    pending = list(report["roots"])
    while pending:
        frame = pending.pop()
        pending += frame["children"]
        detail = frame["detail"] or {}
        if detail.get("emulated"):
            found.setdefault(frame["name"], []).extend(detail.get("calls", []))
    return found


def test_library_calls_are_decoded(optrace, python, tmp_path):
    path = tmp_path / "report.json"
    result = optrace("run", "--dry-run=sm_90", "--python", python, "--format", "json", "-o", path,
                     WORKLOADS / "run_workloads.py", "nccl_collectives", "fft_complex", "fft_real",
                     "sparse_csr_mm", "sparse_csr_product", "cholesky", timeout=400)
    assert result.returncode == 0, result.stdout + result.stderr
    calls = library_calls(json.loads(path.read_text()))

    def is_there(function, **wanted):
        assert any(wanted.items() <= call.items() for call in calls[function]), calls[function]

    is_there("ncclAllReduce", count=16, type="float32", operation="sum", ranks=1, rank=0)
    is_there("ncclReduce", root=0)
    is_there("ncclAllGather", count=16)
    is_there("cufftXtExec", sizes=[64], batch=4, direction="forward", input="complex64")
    is_there("cufftXtExec", sizes=[100], batch=4, input="float32", output="complex64")
    (product,) = [call for call in calls["cusparseSpMM"] if call["b"]["columns"] == 8]
    assert product["a"] == {"format": "CSR", "rows": 16, "columns": 16, "nonzeros": 16,
                            "type": "float32", "indices": "int64"}
    assert product["compute"] == "float32" and product["operation_a"] == "none"
    is_there("cusparseSpMV", compute="float32")
    is_there("cusparseSpGEMM_compute", kind="host_read", assumed=16)
    is_there("cusolverDnXpotrf", n=16, lda=16)


def test_ranks_in_processes_of_their_own(dry_environment, interpreter, tmp_path):
    """Three ranks on three devices: ncclCommSplit gets the arguments of the other ranks."""
    environment = {**dry_environment("reference", "sm_90"), "OPTRACE_DRY_RUN_DEVICES": "3"}
    ranks = [subprocess.Popen([interpreter["reference"], "-B", "-W", "ignore",
                               WORKLOADS / "run_rank.py", str(rank), "3", tmp_path / "store"],
                              env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) for rank in range(3)]
    try:
        results = [rank.communicate(timeout=240) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for number, (output, errors) in enumerate(results):
        assert ranks[number].returncode == 0, errors[-4000:]
        (line,) = [line for line in output.splitlines() if line.startswith("{")]
        assert json.loads(line) == {"rank": number, "ranks": 3,
                                    "split_ranks": [2, 1, 2][number]}
    assert not list(pathlib.Path("/dev/shm").glob("optrace-nccl-*"))


# Each prints a library's result of a call that it must refuse.
WRONG_CALLS = {
    "a rank that there isn't": ("libnccl.so.2", """
class Id(ctypes.Structure): _fields_ = [("bytes", ctypes.c_char * 128)]
made = ctypes.c_void_p()
print(library.ncclCommInitRank(ctypes.byref(made), 2, Id(), 3), made.value)
""", "4 None"),
    "a communicator that there isn't": ("libnccl.so.2", """
print(library.ncclCommCount(ctypes.c_void_p(8), ctypes.byref(ctypes.c_int())))
""", "4"),
    "the end of a group that none began": ("libnccl.so.2", "print(library.ncclGroupEnd())", "5"),
    "a plan that there isn't": ("libcufft.so.11", "print(library.cufftDestroy(77))", "1"),
    "a matrix that there isn't": ("libcusparse.so.12", """
print(library.cusparseSpMatGetSize(ctypes.c_void_p(8), None, None, None))
""", "3"),
    "a second subscriber": ("libcupti.so.12", """
handle = ctypes.c_void_p()
callback = ctypes.CFUNCTYPE(None)(lambda: None)
print(library.cuptiSubscribe(ctypes.byref(handle), callback, None),
      library.cuptiSubscribe(ctypes.byref(handle), callback, None))
""", "0 39"),
}


@pytest.mark.parametrize("what", WRONG_CALLS)
def test_wrong_calls_fail(run_program, dry_environment, interpreter, what):
    name, code, answer = WRONG_CALLS[what]
    code = f"import ctypes\nlibrary = ctypes.CDLL({name!r})\n{code}"
    result = run_program([interpreter["reference"], "-c", code], timeout=60,
                         env=dry_environment("reference", "sm_90"))
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == answer


def test_a_library_that_is_not_emulated_names_the_call(run_program, dry_environment, interpreter):
    code = """
import torch
torch.sparse.SparseSemiStructuredTensor._FORCE_CUTLASS = False
x = torch.tensor([0, 0, 1, 1], dtype=torch.float16).tile(128, 32).cuda()
torch.sparse.to_sparse_semi_structured(x)
"""
    result = run_program([interpreter["reference"], "-c", code], timeout=60,
                         env=dry_environment("reference", "sm_90"))
    assert result.returncode == 1
    assert "cusparseLtInit" in result.stderr


def test_a_half_precision_fft_of_another_size_is_refused(run_program, dry_environment, interpreter):
    code = "import torch; torch.fft.rfft(torch.ones(12, device='cuda', dtype=torch.float16))"
    result = run_program([interpreter["reference"], "-c", code], timeout=60,
                         env=dry_environment("reference", "sm_90"))
    assert result.returncode == 1
    assert "powers of two" in result.stderr


def test_names_that_there_are_not(run_program, interpreter):
    result = run_program([interpreter["reference"], WORKLOADS / "run_workloads.py", "mmm"])
    assert result.returncode == 1
    assert "no workload is named mmm" in result.stderr and " mm " in result.stderr


def test_without_a_device(run_program, interpreter):
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    result = run_program([interpreter["reference"], WORKLOADS / "run_workloads.py", "mm"],
                         env=environment)
    assert result.returncode == 1
    assert "torch sees no CUDA device" in result.stderr

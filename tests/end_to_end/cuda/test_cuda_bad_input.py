"""CUDA failures: an unsuitable torch or driver, calls that fail, a program that crashes."""
import json
import os
import pathlib
import signal

import pytest

USAGE = 2
FAILED = 3
TOO_OLD = "The NVIDIA driver on your system is too old (found version 11080)"


@pytest.fixture(scope="module")
def without_cuda(python, run_program, tmp_path_factory):
    """A Python with the real torch, without its CUDA libraries and the CUDA version in version.py.

    PyPI has no wheel for this machine that is built for the CPU only.
    """
    venv = tmp_path_factory.mktemp("cpu") / "venv"
    made = run_program([python, "-m", "venv", "--without-pip", str(venv)])
    assert made.returncode == 0, made.stderr
    (site,) = venv.glob("lib/python3.*/site-packages")
    (real,) = pathlib.Path(python).parent.parent.glob("lib/python3.*/site-packages/torch")
    (site / "torch/lib").mkdir(parents=True)
    for file in real.iterdir():
        if file.name not in ("lib", "version.py"):
            (site / "torch" / file.name).symlink_to(file)
    for file in (real / "lib").iterdir():
        if "cuda" not in file.name:
            (site / "torch/lib" / file.name).symlink_to(file)
    version = (real / "version.py").read_text()
    assert "\ncuda: Optional[str] = '12.4'" in version
    (site / "torch/version.py").write_text(
        version.replace("cuda: Optional[str] = '12.4'", "cuda: Optional[str] = None"))
    return venv / "bin/python"


@pytest.mark.parametrize("arguments", [
    ["relu", "--device", "cuda", "--dry-run"], ["relu", "--dry-run=sm_80"],
    ["run", "--dry-run", "-c", "import torch"]])
def test_a_torch_for_the_cpu_alone(optrace, without_cuda, arguments):
    result = optrace(arguments[0], "--python", without_cuda, *arguments[1:])
    assert result.returncode == USAGE and result.stdout == ""
    assert "can't be used for a dry run" in result.stderr and "built without CUDA" in result.stderr
    assert str(without_cuda) in result.stderr


@pytest.mark.parametrize("arguments", [["relu", "--dry-run=sm_77"],
                                       ["run", "--dry-run=sm_77", "-c", "0"]])
def test_a_part_that_nobody_makes(optrace, python, arguments):
    result = optrace(*arguments, *([] if arguments[0] == "run" else ["--python", python]))
    assert result.returncode == USAGE and result.stdout == ""
    assert "sm_75" in result.stderr and "sm_120" in result.stderr


def test_an_old_driver_and_an_op(optrace, python):
    result = optrace("relu", "--dry-run", "--python", python,
                     environment={"OPTRACE_DRY_RUN_DRIVER": "11.8"})
    assert result.returncode == FAILED and result.stdout == ""
    assert TOO_OLD in result.stderr
    assert "driver of the same major version" in result.stderr


def test_an_old_driver_and_a_program(optrace, python, tmp_path):
    program = "import torch; print(torch.cuda.is_available()); torch.ones(1, device='cuda')"
    result = optrace("run", "--dry-run", "--python", python, "-o", tmp_path / "report", "-c",
                     program, environment={"OPTRACE_DRY_RUN_DRIVER": "11.8"})
    assert result.returncode == 1 and result.stdout == "False\n"
    assert "RuntimeError: " + TOO_OLD in result.stderr


@pytest.mark.parametrize("version", ["12.0", *(
    pytest.param(version, marks=pytest.mark.verify) for version in ("12.4", "99.9", "new", ""))])
def test_a_driver_of_the_same_major_version_will_do(optrace, python, version, tmp_path):
    result = optrace("run", "--dry-run", "--python", python, "-o", tmp_path / "report", "-c",
                     "import torch; print(torch.cuda.is_available())",
                     environment={"OPTRACE_DRY_RUN_DRIVER": version})
    assert result.returncode == 0 and result.stdout == "True\n", result.stderr


PROGRAM = """
import torch

def too_large():
    return torch.empty(1 << 46, device="cuda")

for _ in range(3):
    try:
        too_large()
    except torch.OutOfMemoryError:
        pass

def no_such_device():
    torch.cuda.set_device(7)

try:
    no_such_device()
except RuntimeError as error:
    print("invalid device ordinal" in str(error))

event = torch.cuda.Event()
for _ in range(10):
    event.record()
    event.query()
torch.cuda.current_stream().query()
torch.zeros(4).pin_memory()
x = torch.ones(4, device="cuda")
print(torch.cuda.is_current_stream_capturing())
"""


@pytest.fixture(scope="module")
def failing(optrace, python, tmp_path_factory):
    """(JSON report, tree) of the program."""
    folder = tmp_path_factory.mktemp("failing")
    script = folder / "program.py"
    script.write_text(PROGRAM)
    result = optrace("run", "--dry-run", "--python", python, "--trace", folder / "trace",
                     "--format", "text", "-o", folder / "tree", script, timeout=300)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "True\nFalse\n"
    rendered = optrace("report", folder / "trace", "--format", "json")
    assert rendered.returncode == 0, rendered.stderr
    return json.loads(rendered.stdout), (folder / "tree").read_text()


def failures(report):
    """Yields each frame with a call that failed, and the frames above it."""
    pending: list[tuple] = [(root, ()) for root in reversed(report["roots"])]
    while pending:
        frame, above = pending.pop()
        if any(call["kind"] == "failed" for call in (frame["detail"] or {}).get("calls", [])):
            yield frame, above
        pending += [(child, (*above, frame)) for child in reversed(frame["children"])]


def test_each_call_that_failed_has_its_error(failing):
    report, _ = failing
    found = {}
    for frame, above in failures(report):
        (call,) = [call for call in frame["detail"]["calls"] if call["kind"] == "failed"]
        found.setdefault((frame["name"], call["error"], call["status"]), []).append((call, above))
    assert set(found) == {("cudaMalloc", 2, "cudaErrorMemoryAllocation"),
                          ("cudaSetDevice", 101, "cudaErrorInvalidDevice")}
    # An allocation that fails empties the cache and tries again; equal calls are counted.
    mallocs = found["cudaMalloc", 2, "cudaErrorMemoryAllocation"]
    assert sum(call["calls"] for call, _ in mallocs) == 6
    for _, above in mallocs:
        names = [frame["name"] for frame in above]
        assert "__main__.too_large" in names and "at::native::empty_cuda" in names
    ((_, above),) = found["cudaSetDevice", 101, "cudaErrorInvalidDevice"]
    python = [frame["source"] for frame in above if frame["layer"] == "python"]
    assert [source["file"].split("/")[-1] for source in python][-2:] == ["program.py",
                                                                         "__init__.py"]
    assert python[-1]["call_line"] == 1 + PROGRAM.splitlines().index(
        "    torch.cuda.set_device(7)")


def test_the_tree_says_what_failed_and_where(failing):
    _, tree = failing
    (at,) = [i for i, line in enumerate(tree.splitlines())
             if line.startswith("failed") and "cudaSetDevice" in line]
    lines = tree.splitlines()[at:]
    assert "cudaErrorInvalidDevice (101)" in lines[0]
    assert any("torch/cuda/__init__.py:" in line for line in lines[1:4])
    memory = [line for line in tree.splitlines() if line.startswith("failed") and "Malloc" in line]
    assert memory and all("cudaErrorMemoryAllocation (2)" in line for line in memory)
    assert any("↳ failed: cudaErrorMemoryAllocation (2)" in line for line in tree.splitlines())


CRASH = """
import ctypes, sys, threading, torch
x = torch.ones(4, device="cuda")
torch.nn.functional.relu(x)
crash = lambda *_: ctypes.string_at(0)
if sys.argv[1] == "thread":
    thread = threading.Thread(target=crash)
    thread.start()
    thread.join()
elif sys.argv[1] == "op":
    library = torch.library.Library("mine", "DEF")
    library.define("boom(Tensor x) -> Tensor")
    library.impl("boom", crash, "CUDA")
    torch.ops.mine.boom(x)
else:
    crash()
"""


@pytest.mark.parametrize("where", ["op", pytest.param("main", marks=pytest.mark.verify),
                                   pytest.param("thread", marks=pytest.mark.verify)])
def test_a_program_that_crashes(optrace, python, tmp_path, where):
    script = tmp_path / "crash.py"
    script.write_text(CRASH)
    trace = tmp_path / "trace"
    result = optrace("run", "--dry-run", "--python", python, "--trace", trace, "-o",
                     tmp_path / "tree", script, where, timeout=300)
    assert result.returncode == 128 + signal.SIGSEGV
    assert "killed by SIGSEGV" in result.stderr and "until then" in result.stderr
    kept = optrace("report", trace, "--format", "json")
    assert kept.returncode == 0, kept.stderr
    assert '"aten::relu"' in kept.stdout and '"arch":"sm_90"' in kept.stdout
    assert "aten::relu" in (tmp_path / "tree").read_text()


def test_an_op_that_crashes(optrace, python, tmp_path):
    report = tmp_path / "report"
    result = optrace("relu", "--dry-run", "--python", python, "-o", report, "--input",
                     "__import__('ctypes').string_at(0)")
    assert result.returncode == FAILED and not os.path.exists(report)
    assert "killed by SIGSEGV" in result.stderr

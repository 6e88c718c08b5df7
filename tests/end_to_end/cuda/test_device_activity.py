"""Device activity from CUPTI, on the emulated device, which follows CUPTI's documentation."""
import collections
import functools
import json
import os
import pathlib
import re

import pytest

from report_frames import frames_with_way as frames

# Records through CUPTI, which a dry run does only if this variable is set.
FOLLOWED = {"OPTRACE_DEVICE_ACTIVITY": "1"}

# Forward and backward (an autograd thread), the replay of a graph, a stream, copies and fills.
WORK = """
import torch
x = torch.randn(2, 3, 8, 8).to("cuda").requires_grad_()
layer = torch.nn.Conv2d(3, 4, 3).to("cuda")
layer(x).relu().sum().backward()
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    y = x * 2
side.synchronize()
graph = torch.cuda.CUDAGraph()
a = torch.ones(16, device="cuda")
with torch.cuda.graph(graph):
    b = (a + 1) * 3
for _ in range(3):
    graph.replay()
torch.empty(1024, dtype=torch.int8, device="cuda").zero_()
b.cpu()
"""

# The library for device activity, and the folder of the emulated libcuda.
SHOW_BUILT = """
import os
for line in open("/proc/self/maps"):
    if "liboptrace_activity" in line:
        print(line.split()[-1], os.environ["TRITON_LIBCUDA_PATH"])
        break
"""

PROFILED = """
import torch
from torch.profiler import ProfilerActivity, profile
def work(number):
    return torch.full((number,), 1.5, device="cuda") * 2
work(64)
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as before:
    pass
work(128)
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
    work(256)
kernels = [event.name for event in profiler.events()
           if event.device_type == torch.autograd.DeviceType.CUDA]
print("kernels", len([name for name in kernels if "elementwise" in name]))
"""

SUBSCRIBED = """
import ctypes, torch
library = ctypes.CDLL("libcupti.so.%s" % torch.version.cuda.split(".")[0])
handle, callback = ctypes.c_void_p(), ctypes.CFUNCTYPE(None)(lambda: None)
assert library.cuptiSubscribe(ctypes.byref(handle), callback, None) == 0
print(float(torch.ones(4, device="cuda").sum()))
"""

# Succeeds if the machine has a CUDA of the wheel's version.
SYSTEMS_OWN = """
import ctypes, importlib.util, pathlib, re
version = pathlib.Path(importlib.util.find_spec("torch").origin).with_name("version.py").read_text()
ctypes.CDLL("libcupti.so." + re.search(r"^cuda.*= '(\\d+)", version, re.MULTILINE).group(1))
"""


@pytest.fixture(scope="module", params=["reference",
                                        pytest.param("newest", marks=pytest.mark.verify)])
def interpreter(request):
    return request.getfixturevalue("python" if request.param == "reference" else "newest_python")


@pytest.fixture(scope="module")
def traced(optrace, tmp_path_factory):
    """traced(interpreter, code, environment) -> (JSON report, tree, the program's output)."""
    path = tmp_path_factory.mktemp("traces") / "trace"

    def trace(interpreter, code, environment=FOLLOWED):
        run = optrace("run", "--dry-run=sm_90", "--python", interpreter, "--trace", path, "-o",
                      os.devnull, "-c", code, timeout=300, environment=environment)
        assert run.returncode == 0, run.stderr
        report = optrace("report", path, "--format", "json")
        assert report.returncode == 0, report.stderr
        return json.loads(report.stdout), optrace("report", path).stdout, run.stdout

    return trace


@pytest.fixture(scope="module")
def worked(traced):
    """worked(interpreter) -> traced() of WORK."""
    return functools.cache(lambda interpreter: traced(interpreter, WORK + SHOW_BUILT))


@pytest.fixture(scope="module")
def built(worked):
    """built(interpreter) -> what SHOW_BUILT shows."""
    return lambda interpreter: worked(interpreter)[2].split()


@pytest.fixture
def recorded_by_hand(run_program, build, repository, tmp_path, built):
    """recorded_by_hand(interpreter, code to run before) -> what the recording lists as missing."""

    def record(interpreter, before):
        recording = tmp_path / "recording"
        code = f"""
import ctypes, os, sys
{before}
sys.path[:0] = [{str(build / "share/optrace/target")!r}, {str(repository / "tests/agent")!r}]
from optrace_target.agent import Agent
from recording_file import record_into
agent = Agent({str(build / "lib/optrace/liboptrace_agent.so")!r}, True)
record_into(agent._library, {str(recording)!r})
assert agent.record_device_activity({built(interpreter)[0]!r}) == []
assert agent.start() == 0 and agent.stop() == 0
"""
        result = run_program([interpreter, "-c", code], timeout=120)
        assert result.returncode == 0, result.stderr
        records = re.findall(rb'{"call":"CUPTI","kind":"activity_missing"[^}]*}',
                             recording.read_bytes())
        return [json.loads(record)["why"] for record in records]

    return record


@pytest.fixture(scope="module")
def followed(interpreter, worked):
    return worked(interpreter)[0]


@pytest.fixture(scope="module")
def told(interpreter, traced):
    """The report of the same program, with launches and copies from the emulated device itself."""
    return traced(interpreter, WORK, {"OPTRACE_DEVICE_ACTIVITY": None})[0]


def way_of(above):
    """Returns the names of Python functions below the program's module, ops and autograd nodes."""
    return tuple(one["name"] for one in above
                 if (one["layer"] == "python" and one["name"] != "__main__.<module>")
                 or one["name"].endswith("::call")
                 or re.fullmatch(r"\w+Backward\d", one["name"]))


def launches(report):
    """Returns (call path, kernel, grid, block, shared memory) -> number of launches."""
    found = collections.Counter()
    for frame, above in frames(report):
        if frame["layer"] != "device":
            continue
        way = way_of(above)
        for launch in frame["detail"]["launches"]:
            found[way, frame["symbol"], tuple(launch["grid"]), tuple(launch["block"]),
                  launch["shared_memory"]] += launch["calls"]
    return found


def transfers(report):
    found = collections.Counter()
    for frame, above in frames(report):
        for call in (frame["detail"] or {}).get("calls", []):
            if call["kind"] in ("copy", "fill"):
                way = way_of((*above, frame))
                found[way, call["kind"], call["bytes"], call.get("direction")] += call["calls"]
    return found


def test_kernels_hang_where_they_were_launched(followed, told):
    # The call paths of a graph's replay may differ, so replays are checked separately below.
    def called(report):
        return {key: times for key, times in launches(report).items()
                if not any("replay" in name for name in key[0])}

    assert called(followed) == called(told)
    ways = [way for way, *_ in launches(followed)]
    assert any("ConvolutionBackward0" in way or "ReluBackward0" in way for way in ways), ways
    replayed = {kernel: times for (way, kernel, *_), times in launches(followed).items()
                if way[-1].endswith("CUDAGraph.replay")}
    assert len(replayed) == 2 and set(replayed.values()) == {3}


def test_copies_and_fills_hang_where_they_were_asked_for(followed, told):
    assert transfers(followed) == transfers(told)
    directions = {direction for _, kind, _, direction in transfers(followed) if kind == "copy"}
    assert {"host to device", "device to host"} <= directions


def test_what_only_a_profiler_knows(followed):
    kernels = [frame for frame, _ in frames(followed) if frame["layer"] == "device"]
    assert kernels
    for kernel in kernels:
        # On the emulated device, each kernel takes one nanosecond.
        assert kernel["detail"]["duration_ns"] == {
            "total": kernel["calls"], "shortest": 1, "longest": 1}
        for launch in kernel["detail"]["launches"]:
            assert launch["registers"] > 0 and launch["static_shared_memory"] >= 0
            assert launch["duration_ns"]["total"] == launch["calls"]
    streams = {launch["stream"] for kernel in kernels for launch in kernel["detail"]["launches"]}
    assert 0 in streams and len(streams) > 1
    copies = [call for frame, _ in frames(followed)
              for call in (frame["detail"] or {}).get("calls", []) if call["kind"] == "copy"]
    assert all(copy["duration_ns"]["total"] == copy["calls"] for copy in copies)


def test_an_op_with_its_backward_pass(optrace, interpreter, tmp_path):
    """And the tree shows the device's time."""
    reports, trees = [], []
    for environment in FOLLOWED, {"OPTRACE_DEVICE_ACTIVITY": None}:
        path = tmp_path / f"{len(reports)}.trace"
        result = optrace("softmax", "--backward", "--device", "cuda", "--dry-run=sm_90", "--python",
                         interpreter, "--times", "--trace", path, environment=environment,
                         timeout=300)
        assert result.returncode == 0, result.stderr
        assert "missing" not in result.stderr + result.stdout
        reports.append(json.loads(optrace("report", path, "--format", "json").stdout))
        trees.append(result.stdout)
    assert launches(reports[0]) == launches(reports[1]) and launches(reports[0])
    kernels = [line for line in trees[0].splitlines() if line.startswith("device ")]
    assert kernels and all(line.endswith(" 1 ns") for line in kernels)


def test_the_profiler_takes_over(interpreter, traced, run_program):
    report, tree, printed = traced(interpreter, PROFILED)
    assert "kernels 2" in printed
    assert "is missing: from the moment" in tree
    kernels = sum(frame["calls"] for frame, _ in frames(report) if frame["layer"] == "device")
    assert kernels == 2  # A fill and a product, before the first profiler.


def test_the_profiler_without_optrace_following(interpreter, traced):
    """A dry run's CUPTI lists launches for other clients, such as torch.profiler."""
    _, tree, printed = traced(interpreter, PROFILED, {"OPTRACE_DEVICE_ACTIVITY": None})
    assert "kernels 2" in printed and "missing" not in tree


def test_cupti_in_use(interpreter, traced):
    report, tree, _ = traced(interpreter, SUBSCRIBED)
    assert "is missing: CUPTI is in use" in tree
    assert not launches(report) and any(frames(report))


def test_the_real_cupti_without_a_driver(interpreter, recorded_by_hand):
    (why,) = recorded_by_hand(interpreter, "import torch")
    assert "there is no NVIDIA driver (libcuda.so.1" in why and why.endswith("Install one.")


def test_cupti_absent(interpreter, recorded_by_hand, built, run_program):
    """With a driver, but without a torch that has loaded its libcupti; the system may have one."""
    (why,) = recorded_by_hand(interpreter, f"""
os.environ["OPTRACE_DRY_RUN"] = "sm_90"
ctypes.CDLL({built(interpreter)[1] + "/libcuda.so.1"!r})
""")
    loads = run_program([interpreter, "-c", SYSTEMS_OWN])
    if loads.returncode == 0:
        assert "cuptiSubscribe failed" in why  # A real CUPTI, which requires a real driver.
    else:
        assert "libcupti.so.1" in why and "can't be loaded" in why
        assert "pip install nvidia-cuda-cupti" in why


@pytest.mark.verify
def test_a_driver_that_is_too_old(python, newest_python, recorded_by_hand, built):
    (why,) = recorded_by_hand(newest_python, f"""
os.environ["OPTRACE_DRY_RUN"] = "sm_90"
os.environ["OPTRACE_DRY_RUN_VERSIONS"] = "cuda=12.4"
ctypes.CDLL({built(python)[1] + "/libcuda.so.1"!r})
""")
    assert "the NVIDIA driver is for CUDA 12.4, which is too old for CUDA 13," in why


def test_a_forked_child(interpreter, optrace, tmp_path):
    """A child forked before CUDA is used can use CUDA and is recorded; so is its parent after."""
    code = """
import os, torch
child = os.fork()
torch.ones(8 if child else 4096, device="cuda")
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    path = tmp_path / "report.json"
    result = optrace("run", "--children", "--dry-run=sm_90", "--python", interpreter, "--format",
                     "json", "-o", path, "-c", code, timeout=300, environment=FOLLOWED)
    assert result.returncode == 0, result.stderr
    kernels = [frame for frame, _ in frames(json.loads(path.read_text()))
               if frame["layer"] == "device"]
    assert sum(kernel["calls"] for kernel in kernels) == 2


def test_headers_absent(optrace, python, tmp_path):
    """A torch without the wheel of CUPTI beside it; all other packages are linked."""
    site = next(pathlib.Path(python).parents[1].glob("lib/python3*/site-packages"))
    packages = tmp_path / "packages"
    packages.mkdir()
    for entry in site.iterdir():
        if entry.name not in ("nvidia", "optrace"):
            (packages / entry.name).symlink_to(entry)
    wheels = packages / "nvidia"
    wheels.mkdir()
    for entry in (site / "nvidia").iterdir():
        if entry.name != "cuda_cupti":
            (wheels / entry.name).symlink_to(entry)
    result = optrace("run", "--dry-run=sm_90", "--python", python, "-c", "import torch",
                     environment={**FOLLOWED, "PYTHONPATH": packages, "CUDA_HOME": tmp_path,
                                  "OPTRACE_PREBUILT": "0"},
                     timeout=300)
    assert "cupti.h" in result.stderr and "nvidia-cuda-cupti" in result.stderr

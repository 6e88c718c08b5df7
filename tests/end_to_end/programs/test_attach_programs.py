"""`optrace attach` on all kinds of programs: each is traced and continues undisturbed."""
import fcntl
import json
import os
import pathlib
import stat
import subprocess
import tempfile
import threading
import time

import pytest

from attach_target import LIMIT, PERIOD, Outside, Target, end, maps_of, ops_in, without_ptrace
from kept_traces import without_place
from report_frames import frames
from usual_cache import usual_cache

FAILED = 3
OF_TRAINING = {"aten::conv2d", "aten::linear", "aten::relu"}
OF_ANSWERS = {"aten::linear", "aten::tanh", "aten::softmax.int"}


def attach(optrace, pid, folder, *options, ops=100, **more):
    """Attaches to a process and returns the report.

    On a busy machine, the main thread of a program with many threads may need more than the default
    of 10 seconds until it runs again.
    """
    file = folder / "report.json"
    result = optrace("attach", pid, "--count", ops, "--timeout", 60, "--format", "json", "-o", file,
                     *options, **{"timeout": LIMIT, **more})
    assert without_place(result.stderr) == ""
    assert (result.returncode, result.stdout) == (0, "")
    return json.loads(file.read_text())


def children_of(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        found += map(int, (task / "children").read_text().split())
    return found


@pytest.mark.parametrize("attaches", [2, pytest.param(5, marks=pytest.mark.stress)])
@pytest.mark.parametrize(("kind", "ops"), [
    ("threads", OF_ANSWERS), ("server", OF_ANSWERS), ("loader", {"aten::relu", "aten::mean.dim"}),
    ("forking", OF_ANSWERS), ("profiled", OF_ANSWERS)])
def test_it_is_traced_and_goes_on(optrace, python, tmp_path, kind, ops, attaches):
    with Target(python, tmp_path / kind, kind) as target:
        target.wait_for_lines(2 * PERIOD)
        undisturbed = target.results()[:PERIOD]
        outside = Outside(target.pid) if kind == "threads" else None
        threads = set()
        for _ in range(attaches):
            # On a busy machine, few threads make the first hundred calls.
            report = attach(optrace, target.pid, tmp_path, ops=1000 if kind == "threads" else 100)
            assert ops <= ops_in(report)
            threads |= {root["thread"] for root in report["roots"]}
            assert "python_frames_off" not in [each["kind"] for each in report["shortfalls"]]
        if kind == "threads":
            assert len(threads) > 2
        if kind == "loader":  # A worker is a process like others.
            worker = min(children_of(target.pid))
            assert {"aten::cumsum", "aten::sin"} <= ops_in(attach(optrace, worker, tmp_path))
            target.wait_for_lines(PERIOD)
        if outside:
            outside.assert_same()
        target.wait_for_lines(PERIOD)
        end(target, undisturbed)


@pytest.mark.parametrize("attaches", [4, pytest.param(20, marks=pytest.mark.stress)])
def test_exceptions_of_signal_handlers_and_profile_functions_are_the_programs(optrace, python,
                                                                              tmp_path, attaches):
    with Target(python, tmp_path / "target", "interrupted") as target:
        target.wait_for_lines(2 * PERIOD)
        undisturbed = target.results()[:PERIOD]
        for _ in range(attaches):
            attach(optrace, target.pid, tmp_path, ops=1)
        end(target, undisturbed)


def trace_threads_of(optrace, python, folder):
    # Hides the warning that NumPy is missing.
    with Target(python, folder / "threads", "threads",
                environment={"PYTHONWARNINGS": "ignore"}) as target:
        target.wait_for_lines(2 * PERIOD)
        undisturbed = target.results()[:PERIOD]
        for _ in range(2):
            assert OF_ANSWERS <= ops_in(attach(optrace, target.pid, folder))
        target.wait_for_lines(PERIOD)
        end(target, undisturbed)


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13"])
def test_other_pythons(optrace, repository, tmp_path, version):
    python = repository / f".venv-{version}/bin/python"
    if not python.exists():
        pytest.skip(f"cannot run here: {python} is not there; `make pythons` makes it")
    trace_threads_of(optrace, str(python), tmp_path)


def test_the_newest_torch(optrace, newest_python, tmp_path):
    trace_threads_of(optrace, newest_python, tmp_path)


def test_a_jupyter_kernel(optrace, python, tmp_path):
    """Its ZeroMQ threads block all signals, and block them again after they were traced."""
    program = tmp_path / "notebook.py"
    program.write_text("""
import json, os, subprocess, sys
from jupyter_client import KernelManager

def blocked(pid):
    return {task: [line for line in open(f"/proc/{pid}/task/{task}/status") if "SigBlk" in line]
            for task in os.listdir(f"/proc/{pid}/task")}

def run(code):
    said = []
    reply = client.execute_interactive(
        code, timeout=60,
        output_hook=lambda message: said.append(message["content"].get("text", "")))
    assert reply["content"]["status"] == "ok", reply
    return "".join(said)

kernel = KernelManager(transport="ipc", ip=sys.argv[1])
kernel.start_kernel()
try:
    client = kernel.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    run("import torch; layer = torch.nn.Linear(4, 4)")
    pid = kernel.provisioner.pid
    before = blocked(pid)
    assert any(line != ["SigBlk:\\t0000000000000000\\n"] for line in before.values())
    tracing = subprocess.Popen(sys.argv[2:3] + ["attach", str(pid)] + sys.argv[3:])
    cells = 0
    while tracing.poll() is None:
        assert run(f"print(layer(torch.ones(2, 4)).shape, {cells})") == \\
            f"torch.Size([2, 4]) {cells}\\n"
        cells += 1
    run("import optrace\\nwith optrace.trace() as trace: layer(torch.ones(2, 4)).relu()")
    run("for rule in ('calls aten::relu == 1', 'calls aten::addmm == 1'): assert trace.check(rule)")
    after = blocked(pid)
    print(json.dumps({"status": tracing.returncode, "cells": cells,
                      "same": all(after[task] == before[task]
                                  for task in before if task in after)}))
finally:
    kernel.shutdown_kernel(now=True)
""")
    report = tmp_path / "report.json"
    ended = subprocess.run(
        [python, "-B", program, str(tmp_path / "k"), *optrace.command, "--count", "60",
         "--format", "json", "-o", report], capture_output=True, text=True, timeout=200,
        env={**os.environ, "JUPYTER_RUNTIME_DIR": str(tmp_path), "IPYTHONDIR": str(tmp_path)})
    assert ended.returncode == 0, ended.stdout + ended.stderr
    said = json.loads(ended.stdout.splitlines()[-1])
    assert said["status"] == 0 and said["same"] and said["cells"] > 1
    assert "aten::linear" in ops_in(json.loads(report.read_text()))


class DescriptorWatch(threading.Thread):
    """Watches all files that a process has open, until the end of the `with` block."""

    SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL

    def __init__(self, pid):
        super().__init__()
        self._folder = f"/proc/{pid}/fd"
        self._done = threading.Event()
        self.files = set()  # (device, inode)
        self.copies = set()  # Names of sealed memory.
        self.writable = set()

    def run(self):
        while not self._done.is_set():
            for name in os.listdir(self._folder):
                try:
                    self._look_at(f"{self._folder}/{name}")
                except FileNotFoundError:  # It was closed meanwhile.
                    pass
            time.sleep(0.001)

    def _look_at(self, path):
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return
        self.files.add((status.st_dev, status.st_ino))
        link = os.readlink(path)
        if not link.startswith("/memfd:optrace-") or link in self.copies:
            return
        descriptor = os.open(path, os.O_RDWR)
        try:
            assert fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & self.SEALS == self.SEALS
            os.pwrite(descriptor, b"?", 0)
            self.writable.add(link)
        except PermissionError:
            self.copies.add(link)
        finally:
            os.close(descriptor)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self.join()


def assert_gets_only_copies(watch, build):
    """Asserts that the process got no file of the host that it could open again for writing."""
    ours = [build / "lib/optrace/liboptrace_agent.so", *usual_cache().rglob("*.plan"),
            *pathlib.Path(tempfile.gettempdir()).glob("optrace-*/*.plan")]
    assert not watch.files & {(file.stat().st_dev, file.stat().st_ino) for file in ours}
    assert watch.copies and not watch.writable


def test_a_process_in_a_container(optrace, python, build, tmp_path):
    """The process has other PIDs, and its torch is at a path that doesn't exist for optrace."""
    if os.geteuid() != 0:
        pytest.skip("cannot run here: only root makes namespaces")
    wrapper = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
               'mount --bind "$0" /mnt && shift && exec /mnt/bin/python "$@"',
               str(pathlib.Path(python).parents[1])]
    with Target(python, tmp_path / "target", wrapper=wrapper) as target:
        target.wait_for_lines(2 * PERIOD)
        undisturbed = target.results()[:PERIOD]
        inside, = children_of(target.pid)
        assert not pathlib.Path("/mnt/bin/python").exists()
        agents = set()
        for _ in range(2):
            with DescriptorWatch(inside) as watch:
                report = attach(optrace, inside, tmp_path)
            assert OF_TRAINING <= ops_in(report)
            assert_gets_only_copies(watch, build)
            agents.add(maps_of(inside).count("/memfd:optrace-"))
        assert len(agents) == 1 and 0 not in agents  # The second attach uses the same agent.
        target.wait_for_lines(PERIOD)
        end(target, undisturbed)


def test_a_process_on_cuda(optrace, python, tmp_path):
    """Uses the emulated device: a dry run passes it on to children through the environment."""
    result = optrace("run", "--dry-run", "-o", tmp_path / "run.html", "-c",
                     "import json, os, torch; torch.ones(1); print(json.dumps(dict(os.environ)))",
                     timeout=900)
    assert result.returncode == 0, result.stderr
    handed_on = {name: value for name, value in json.loads(result.stdout).items()
                 if name in ("LD_PRELOAD", "TRITON_LIBCUDA_PATH") or name.startswith("OPTRACE_DRY")}
    with Target(python, tmp_path / "target", "cuda", environment=handed_on) as target:
        target.wait_for_lines(PERIOD)
        undisturbed = target.results()[:PERIOD]
        for _ in range(2):
            report = attach(optrace, target.pid, tmp_path)
            assert "aten::cudnn_convolution" in ops_in(report)
            assert any(frame["layer"] == "library" and "cudnn" in frame["name"]
                       for frame in frames(report))
            assert report["dry_run"]["arch"] == "sm_90"
        target.wait_for_lines(PERIOD)
        end(target, undisturbed)


def test_one_that_listens_needs_no_ptrace(optrace, python, build, tmp_path):
    with Target(python, tmp_path / "sealed", "resting") as target:
        refused = optrace("attach", target.pid, "--count", 1, preexec_fn=without_ptrace)
        assert refused.returncode == FAILED and "seccomp filter" in refused.stderr
    with Target(python, tmp_path / "listening", "listening",
                environment={"PYTHONPATH": str(build / "python")}) as target:
        target.wait_for_lines(2 * PERIOD)
        undisturbed = target.results()[:PERIOD]
        for _ in range(2):
            report = attach(optrace, target.pid, tmp_path, preexec_fn=without_ptrace)
            assert OF_TRAINING <= ops_in(report)
        end(target, undisturbed)

"""`optrace attach`: a running process is traced and continues undisturbed."""
import json
import signal
import subprocess

import pytest

import attach_target
from attach_target import (
    LIMIT,
    PERIOD,
    Outside,
    Target,
    assert_right,
    descriptors_of,
    maps_of,
    ops_in,
)
from kept_traces import without_place
from refusals import assert_refused

USAGE = 2
FAILED = 3
OF_TRAINING = {"aten::conv2d", "aten::linear", "aten::relu", "aten::mean"}


def test_what_never_comes_by_is_left_alone(optrace, python):
    program = "import torch, time; print(flush=True); time.sleep(1000)"
    target = subprocess.Popen([python, "-c", program], stdout=subprocess.PIPE)
    try:
        target.stdout.readline()
        before = descriptors_of(target.pid)
        result = optrace("attach", target.pid, "--timeout", "0.5")
        assert result.returncode == FAILED
        assert "ran no Python code for 0.5 seconds" in result.stderr
        assert target.poll() is None and descriptors_of(target.pid) == before
    finally:
        target.kill()
        target.wait()


@pytest.mark.parametrize(("program", "said"), [
    (["sleep", "1000"], "not Python"),
    (["{python}", "-c", "import time; time.sleep(1000)"], "torch")])
def test_what_can_not_be_traced_is_refused(optrace, python, program, said):
    target = subprocess.Popen([word.format(python=python) for word in program])
    try:
        result = optrace("attach", target.pid)
        assert result.returncode == USAGE and said in result.stderr
        assert target.poll() is None
    finally:
        target.kill()
        target.wait()


def test_a_python_that_has_ended_is_refused_and_its_process_goes_on(optrace, python):
    program = """if True:
        import ctypes, sys, torch
        libc = ctypes.CDLL(None)
        libc.strdup.restype = ctypes.c_void_p
        # Called in the opposite order, once Python has ended, with the exit status.
        libc.on_exit(libc.getchar, None)
        libc.on_exit(libc.dprintf, ctypes.c_void_p(libc.strdup(b"over\\n")))
        sys.exit(1)  # The descriptor of dprintf.
    """
    target = subprocess.Popen([python, "-c", program], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert target.stdout.readline() == "over\n"
        before = descriptors_of(target.pid), maps_of(target.pid)
        result = optrace("attach", target.pid)
        assert_refused(result, USAGE, f"the Python of process {target.pid} has ended")
        assert (descriptors_of(target.pid), maps_of(target.pid)) == before
        assert target.communicate("\n", timeout=LIMIT) == ("", "")
        assert target.returncode == 1
    finally:
        target.kill()
        target.wait()


def test_a_process_that_ends_meanwhile(optrace, python, tmp_path):
    with Target(python, tmp_path / "target") as target:
        tracing = subprocess.Popen([*optrace.command, "attach", str(target.pid), "--json-lines",
                                    "--trace", str(tmp_path / "trace")],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert not json.loads(tracing.stdout.readline())["done"]
        target.process.kill()
        target.process.wait()
        rest, errors = tracing.communicate(timeout=LIMIT)
    assert tracing.returncode == 0
    assert f"process {target.pid} ended while it was traced" in errors
    assert json.loads(rest.splitlines()[-1])["done"]
    assert "aten::conv2d" in optrace("report", tmp_path / "trace").stdout


@pytest.fixture(scope="module")
def process(python, tmp_path_factory):
    """A process to which all tests below attach, one after the other. It ends undisturbed.

    It never rests, so tests that don't need it are above.
    """
    with Target(python, tmp_path_factory.mktemp("target")) as target:
        target.wait_for_lines(2 * PERIOD)
        undisturbed = target.results()[:PERIOD]
        outside = Outside(target.pid)
        yield target, undisturbed, outside
        assert attach_target.end(target, undisturbed)["threads"] == 1


@pytest.fixture
def training(process):
    """The process; after the test, its results are right and nothing of optrace is active in it."""
    target, undisturbed, outside = process
    yield target
    outside.assert_same()
    target.wait_for_lines(PERIOD)
    assert_right(target.results(), undisturbed)


def test_a_training_loop_is_traced_and_goes_on(optrace, training, tmp_path):
    for _ in range(3):
        result = optrace("attach", training.pid, "--count", 300, "--format", "json",
                         "-o", tmp_path / "report.json")
        assert (result.returncode, result.stdout, without_place(result.stderr)) == (0, "", "")
        report = json.loads((tmp_path / "report.json").read_text())
        assert OF_TRAINING <= ops_in(report)
        assert report["roots"][0]["layer"] == "python"


def test_ops_and_count_select_calls_as_in_run(optrace, training, tmp_path):
    report = tmp_path / "report.json"
    result = optrace("attach", training.pid, "--ops", "aten::lin*", "--count", 3, "--format",
                     "json", "-o", report)
    assert (result.returncode, without_place(result.stderr)) == (0, "")
    frames = json.loads(report.read_text())
    assert "aten::linear" in ops_in(frames) and "aten::conv2d" not in ops_in(frames)
    nothing = optrace("attach", training.pid, "--ops", "aten::no_op*", "--duration", "0.3")
    assert nothing.returncode == 0
    assert "no op that was called matches --ops 'aten::no_op*'" in nothing.stderr


def test_counts_come_line_by_line_and_ctrl_c_ends_only_the_trace(optrace, training):
    tracing = subprocess.Popen([*optrace.command, "attach", str(training.pid), "--json-lines"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    first = json.loads(tracing.stdout.readline())
    assert first["schema"] == "optrace.attach/1" and not first["done"]
    refused = optrace("attach", training.pid, "--count", 1)
    assert refused.returncode == FAILED and "already being traced" in refused.stderr
    tracing.send_signal(signal.SIGINT)
    rest, errors = tracing.communicate(timeout=LIMIT)
    assert (tracing.returncode, without_place(errors)) == (0, "")
    last = json.loads(rest.splitlines()[-1])
    assert last["done"] and last["events"] >= first["events"]
    assert OF_TRAINING <= {op["op"] for op in last["ops"]}


def test_a_killed_optrace_leaves_nothing_behind(optrace, training, process):
    outside = process[-1]
    for lines in (0, 1):
        tracing = subprocess.Popen([*optrace.command, "attach", str(training.pid), "--json-lines"],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for _ in range(lines):
            tracing.stdout.readline()
        tracing.kill()
        tracing.communicate()
        outside.wait_until_same()


def test_it_ends_at_an_op_or_after_a_while(optrace, training, tmp_path):
    report = tmp_path / "report.json"
    result = optrace("attach", training.pid, "--until-op", "aten::cums*", "--format", "json",
                     "-o", report)
    assert (result.returncode, without_place(result.stderr)) == (0, "")
    assert "aten::cumsum" in ops_in(json.loads(report.read_text()))
    result = optrace("attach", training.pid, "--duration", "0.3", "--json-lines")
    assert (result.returncode, without_place(result.stderr)) == (0, "")
    last = json.loads(result.stdout.splitlines()[-1])
    assert last["done"] and last["seconds"] >= 0.3 and last["paths"] > 0

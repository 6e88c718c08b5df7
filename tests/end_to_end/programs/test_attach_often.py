"""`optrace attach` hundreds of times to one process, and killed at any moment: the process loses no
iteration, its results are right, and nothing accumulates in it."""
import pathlib
import random
import re
import subprocess
import time

import pytest

from attach_target import (
    PERIOD,
    Outside,
    Target,
    descriptors_of,
    end,
    maps_of,
    threads_of,
    wait_until,
)
from kept_traces import without_place

# `make stress` attaches five hundred times, and `make test` only a few.
ATTACHES = 500
FEW_ATTACHES = 12
KILLS = 50
FEW_KILLS = 6
MEBIBYTE = 1 << 20


def memory_of(pid):
    """Returns the anonymous resident memory of a process in bytes."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) * 1024


@pytest.mark.parametrize("attaches", [
    FEW_ATTACHES, pytest.param(ATTACHES, marks=pytest.mark.stress, id="hundreds")])
def test_attach_again_and_again(optrace, python, tmp_path, attaches):
    with Target(python, tmp_path / "target", "resting") as target:
        target.wait_for_lines(2 * PERIOD)
        undisturbed = target.results()[:PERIOD]
        outside = Outside(target.pid)
        seen = []
        for _ in range(attaches):
            result = optrace("attach", target.pid, "--count", 1, "-o", tmp_path / "report.html")
            assert (result.returncode, without_place(result.stderr)) == (0, "")
            seen.append((memory_of(target.pid), len(maps_of(target.pid).splitlines())))
        outside.assert_same()
        # The first attaches leave the agent, names and caches behind; later ones add nothing.
        (early, early_maps), (late, late_maps) = seen[attaches // 10], seen[-1]
        print(f"{early / MEBIBYTE:.1f} MiB after {attaches // 10}, {late / MEBIBYTE:.1f} after all")
        assert late < early + 8 * MEBIBYTE and late_maps <= early_maps + 8
        end(target, undisturbed)


@pytest.mark.parametrize("kills", [
    FEW_KILLS, pytest.param(KILLS, marks=pytest.mark.stress, id="many")])
def test_killed_at_any_moment(optrace, python, tmp_path, kills):
    """The kills are spread over all phases: inspecting, stopping, placing probes, recording."""
    moments = random.Random(7)
    with Target(python, tmp_path / "target", "resting") as target:
        target.wait_for_lines(2 * PERIOD)
        undisturbed = target.results()[:PERIOD]
        assert optrace("attach", target.pid, "--duration", "0.2").returncode == 0  # Fills caches.
        begun = time.monotonic()
        assert optrace("attach", target.pid, "--duration", "0.2").returncode == 0
        whole = time.monotonic() - begun
        outside = Outside(target.pid)
        expected = threads_of(target.pid), descriptors_of(target.pid)
        for kill in range(kills):
            tracing = subprocess.Popen([*optrace.command, "attach", str(target.pid), "--duration",
                                        "0.2", "-o", str(tmp_path / "report.html")],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(moments.uniform(0, whole))
            tracing.kill()
            tracing.wait()
            lines = len(target.lines())
            if kill % 10 == 9 or kill == kills - 1:
                outside.wait_until_same()
            else:
                wait_until(lambda: (threads_of(target.pid), descriptors_of(target.pid)) == expected,
                           "only the process's own threads and descriptors are left")
            target.wait_for_lines(1)
            assert len(target.lines()) > lines
        end(target, undisturbed)


NOBODY_TAKES_IT = """
import os, pathlib, socket, sys
text = pathlib.Path(sys.argv[1]).read_text()
before = os.listdir("/proc/self/fd")
ours, other = socket.socketpair()
exec(text, {"descriptor": ours.detach(), "other_end": other.detach()})
assert os.listdir("/proc/self/fd") == before
"""


def test_killed_before_it_takes_its_socket(python, repository, run_program):
    ended = run_program([python, "-c", NOBODY_TAKES_IT,
                         repository / "target/python/attach.py"])
    assert (ended.returncode, ended.stderr) == (0, "")

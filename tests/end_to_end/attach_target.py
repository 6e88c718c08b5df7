"""A running attached_program.py in the tests of `optrace attach`: its results, and its state as
seen from outside."""
import errno
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import numpy

import system_call_filter
from report_frames import frames

PROGRAM = pathlib.Path(__file__).with_name("attached_program.py")
PERIOD = 40  # Iterations, after which the program starts over.
LIMIT = 600
SOON = 120
PAGE = os.sysconf("SC_PAGESIZE")
ENTRY = 8  # Bytes of /proc/PID/pagemap for each page.


def wait_until(holds, what, limit=LIMIT):
    end = time.monotonic() + limit
    while not holds():
        assert time.monotonic() < end, f"waited for {limit} s until {what}"
        time.sleep(0.01)


class Target:
    """Runs until stop() or the end of the `with` block. `wrapper` is a command that starts it."""

    def __init__(self, python, folder, kind="training", wrapper=(), environment=()):
        folder.mkdir(parents=True, exist_ok=True)
        self._end = folder / "end"
        self._output = folder / "output"
        self._errors = folder / "errors"
        variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1",
                     **dict(environment)}
        with open(self._output, "wb") as output, open(self._errors, "wb") as errors:
            # Killed when the test ends, in whatever way.
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *wrapper, python, str(PROGRAM), kind,
                 str(self._end), str(PERIOD)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=variables,
                start_new_session=True)
        self.pid = self.process.pid

    def __enter__(self):
        self.wait_for_lines()
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None:
            print(self.errors())
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def errors(self):
        return self._errors.read_text()

    def lines(self):
        """Returns the complete lines of its output."""
        return self._output.read_text().split("\n")[:-1]

    def wait_for_lines(self, count=1):
        """Waits until it has printed `count` more lines."""
        wanted = len(self.lines()) + count

        def said():
            assert self.process.poll() is None, self.errors()
            return len(self.lines()) >= wanted

        wait_until(said, f"the program says {count} lines")

    def stop(self):
        """Lets it end by itself; returns the state that it prints at its end."""
        self._end.touch()
        self.process.wait(timeout=LIMIT)
        assert self.process.returncode == 0, self.errors()
        assert self.errors() == ""
        return json.loads(self.lines()[-1])

    def results(self):
        """Returns the results of all iterations; asserts that none is missing."""
        found = [line.split() for line in self.lines() if re.fullmatch(r"\d+ [0-9a-f]+", line)]
        assert [int(number) for number, _ in found] == list(range(len(found)))
        return [bits for _, bits in found]


def assert_right(results, undisturbed):
    """Asserts that every iteration's result is bit by bit that of an undisturbed run."""
    assert len(undisturbed) >= PERIOD and len(results) >= 1
    wrong = [(number, bits, undisturbed[number % PERIOD]) for number, bits in enumerate(results)
             if bits != undisturbed[number % PERIOD]]
    assert wrong == []


def threads_of(pid):
    return sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))


def descriptors_of(pid):
    folder = f"/proc/{pid}/fd"
    found = {}
    for name in os.listdir(folder):
        try:
            found[name] = os.readlink(f"{folder}/{name}")
        except FileNotFoundError:  # It was closed meanwhile.
            pass
    return found


def maps_of(pid):
    return pathlib.Path(f"/proc/{pid}/maps").read_text()


def written_pages(pagemap, start, end):
    """Yields the pages of a private mapping of a file that the process has copies of.

    Nobody has written to the other pages, so they are the file's. docs.kernel.org,
    admin-guide/mm/pagemap.rst describes the bits.
    """
    present, swapped, of_file = 1 << 63, 1 << 62, 1 << 61
    pagemap.seek(start // PAGE * ENTRY)
    content = pagemap.read((end - start) // PAGE * ENTRY)
    if len(content) < (end - start) // PAGE * ENTRY:
        raise ProcessLookupError("the process has ended")
    bits = numpy.frombuffer(content, numpy.uint64)
    written = (bits & swapped != 0) | (bits & (present | of_file) == present)
    for number in numpy.flatnonzero(written).tolist():
        yield start + number * PAGE


def changed_code(pid):
    """Returns the places where a process's code differs from the file that it is mapped from."""
    line = re.compile(r"([0-9a-f]+)-([0-9a-f]+) ..xp ([0-9a-f]+) \S+ [1-9]\d* +(/.*)")
    changed = []
    seen = 0
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory, \
            open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
        for start, end, offset, path in line.findall(maps_of(pid)):
            if path.endswith(" (deleted)"):
                continue
            # The mapped file itself, even if its path leads to another file now; for root only.
            mapped = f"/proc/{pid}/map_files/{start.lstrip('0')}-{end.lstrip('0')}"
            start, end, offset = (int(number, 16) for number in (start, end, offset))
            seen += 1
            with open(mapped if os.access(mapped, os.R_OK) else f"/proc/{pid}/root{path}",
                      "rb") as file:
                for at in written_pages(pagemap, start, end):
                    file.seek(offset + at - start)
                    expected = file.read(PAGE)
                    memory.seek(at)
                    found = memory.read(PAGE)[:len(expected)]
                    if len(found) < len(expected):
                        raise ProcessLookupError(f"process {pid} has ended")
                    if found != expected:
                        byte = int((numpy.frombuffer(found, numpy.uint8)
                                    != numpy.frombuffer(expected, numpy.uint8)).argmax())
                        changed.append(f"{path} at {offset + at - start + byte:#x}")
    assert seen > 0
    return changed


def redirected(pid):
    """Returns True if an import table of libtorch_cpu leads to code of optrace's."""
    constants = 32 << 20  # Larger read-only parts are no import tables.
    parts = [line.split() for line in maps_of(pid).splitlines()]
    places = [[int(word, 16) for word in part[0].split("-")] for part in parts]
    ours = [place for part, place in zip(parts, places)
            if "x" in part[1] and (len(part) == 5 or "optrace" in part[5])]
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for part, (start, end) in zip(parts, places):
            if part[1] not in ("r--p", "rw-p") or not part[-1].endswith("/libtorch_cpu.so"):
                continue
            if part[1] == "r--p" and end - start > constants:
                continue
            memory.seek(start)
            words = numpy.frombuffer(memory.read(end - start), numpy.uint64)
            if any(((words >= first) & (words < last)).any() for first, last in ours):
                return True
    return False


class Outside:
    """The visible state of a process, to be compared with a later one."""

    def __init__(self, pid):
        self._pid = pid
        self._expected = threads_of(pid), descriptors_of(pid), []
        assert changed_code(pid) == []

    def assert_same(self):
        """Asserts that no code differs, and soon no thread or descriptor of optrace's is left."""
        assert changed_code(self._pid) == []
        self.wait_until_same()

    def wait_until_same(self):
        end = time.monotonic() + SOON
        while (found := self._found()) != self._expected and time.monotonic() < end:
            time.sleep(0.01)
        assert found == self._expected

    def _found(self):
        seen = threads_of(self._pid), descriptors_of(self._pid)
        return *seen, changed_code(self._pid) if seen == self._expected[:2] else None


def end(target, undisturbed):
    """Lets it end; asserts right results and that nothing of optrace is left. Returns its state."""
    state = target.stop()
    assert state["profile"] == state["trace"] == "None" and state["modules"] == []
    assert_right(target.results(), undisturbed)
    return state


def ops_in(report):
    return {frame["op"] for frame in frames(report) if frame["op"]}


def without_ptrace():
    """Installs a seccomp filter like that of a sandbox; for Popen's preexec_fn."""
    system_call_filter.deny([system_call_filter.PTRACE, system_call_filter.PROCESS_VM_READV,
                             system_call_filter.PROCESS_VM_WRITEV, system_call_filter.PIDFD_GETFD],
                            system_call_filter.REFUSE + errno.EPERM)

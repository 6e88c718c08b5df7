#!/usr/bin/env python3
"""Runs the tests of a build folder with ctest, as many at a time as there are processors and memory
for, and shows how far they are.

    run.py BUILD [--jobs N] [--until SECONDS] [--figures FILE] [CTEST_ARGUMENT...]

The CTEST_ARGUMENTs select tests: `-L quick`, `-LE verify`, `-R NAME`. --until is a time in seconds
since 1970 after which no test goes on: those that were not run are listed. --figures writes what
each test took, as JSON. The ten slowest tests are listed before ctest's summary, which is the end.

Exit status 0: no test failed; 1: one did; 2: wrong usage; 130: interrupted.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

# " 3/87 Test #12: unit: report ....   Passed    4.02 sec"
ENDED = re.compile(r" *\d+/\d+ Test +#\d+: (.+?) \.*[ *]*(Passed|Failed|Timeout|Skipped|"
                   r"Not Run|Exception\S*|SEGFAULT|ILLEGAL).*? ([\d.]+) sec")
SUMMARY = re.compile(r"\d+% tests passed")
PROCESSOR_TIME = re.compile(r"processor time: ([\d.]+) s user, ([\d.]+) s system")
SLOWEST = 10
GIGABYTE = 1 << 30
GRACE = 20  # Seconds for tests to end their programs.


def selected_tests(build, arguments):
    """Returns {name: gigabytes of memory} of the selected tests, as ctest itself tells."""
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1", *arguments],
                            stdout=subprocess.PIPE, text=True, check=False)
    if listed.returncode != 0:
        sys.exit(2)
    needs = {}
    for test in json.loads(listed.stdout)["tests"]:
        properties = {one["name"]: one["value"] for one in test.get("properties", [])}
        groups = properties.get("RESOURCE_GROUPS", [])
        needs[test["name"]] = sum(requirement["slots"] for group in groups
                                  for requirement in group["requirements"])
    return needs


def memory_file(build, needs):
    """Writes the memory of this machine for ctest, which starts a test only if there is enough left
    for it. A test that needs more than there is runs alone."""
    kilobytes = re.search(r"MemAvailable: +(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]
    slots = max([int(kilobytes) * 1024 // GIGABYTE, *needs.values()])
    path = build / "memory.json"
    path.write_text(json.dumps({"version": {"major": 1, "minor": 0},
                                "local": [{"memory": [{"id": "ram", "slots": slots}]}]}))
    return path


def processor_times(log):
    """Returns {name: seconds of processor time} from ctest's log of the output of all tests."""
    times: dict[str, float] = {}
    name = ""
    for line in log.read_text(errors="replace").splitlines():
        if begun := re.match(r"\d+/\d+ Test: (.+)", line):
            name = begun[1]
        elif taken := PROCESSOR_TIME.match(line):
            times[name] = float(taken[1]) + float(taken[2])
    return times


def minutes(seconds):
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


class Run:
    """One run of ctest."""

    def __init__(self, command, tests):
        self.tests = tests
        self.taken = {}  # Seconds of each test that has ended.
        self.failed = False
        self.stopped = False
        self._summary = []
        self._began = time.monotonic()
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                                         errors="replace", start_new_session=True)

    def follow(self):
        """Passes on what ctest prints, up to its summary. Returns ctest's exit status."""
        for line in self._process.stdout:
            if self.stopped:
                continue  # A test that was ended has no result.
            if self._summary or SUMMARY.match(line):
                self._summary.append(line)
            elif ended := ENDED.match(line):
                self.taken[ended[1]] = float(ended[3])
                self.failed |= ended[2] not in ("Passed", "Skipped")
                print(f"{line.rstrip()}  {self._progress()}", flush=True)
            elif not re.match(r" +Start +\d+: ", line):
                print(line, end="", flush=True)
        return self._process.wait()

    def _progress(self):
        left = len(self.tests) - len(self.taken)
        if len(self.taken) < len(self.tests) / 10:  # The longest start first.
            return f"[{left} left]"
        seconds = (time.monotonic() - self._began) / len(self.taken) * left
        return f"[{left} left, about {minutes(seconds)}]" if left else ""

    def stop(self):
        """Ends all tests; their programs, too, because tests end them when they are interrupted."""
        self.stopped = True
        for number in (signal.SIGINT, signal.SIGKILL):
            try:
                os.killpg(self._process.pid, number)
            except ProcessLookupError:
                return
            end = time.monotonic() + GRACE
            while time.monotonic() < end and group_exists(self._process.pid):
                time.sleep(0.1)

    def print_end(self, times):
        if missing := [name for name in self.tests if name not in self.taken]:
            print_not_run(missing, "the time was up" if self.stopped else "ctest ended before")
        print(f"\nThe {min(SLOWEST, len(self.taken))} slowest of {len(self.taken)} tests:")
        for name in sorted(self.taken, key=self.taken.get, reverse=True)[:SLOWEST]:
            print(f"  {self.taken[name]:7.1f} s, "
                  f"processor time {times.get(name, 0):7.1f} s  {name}")
        print()
        if self._summary:
            print("".join(self._summary), end="", flush=True)
        else:  # ctest was stopped.
            print(f"{len(self.taken)} of {len(self.tests)} tests ended, "
                  f"{'some' if self.failed else 'none'} of them failed.")


def print_not_run(names, reason):
    print(f"\nNot run: {len(names)} tests, because {reason}:")
    print(*(f"  {name}" for name in names), sep="\n")


def group_exists(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--until", type=float, default=None)
    parser.add_argument("--figures", type=pathlib.Path)
    options, selection = parser.parse_known_args()
    tests = selected_tests(options.build, selection)
    if not tests:
        parser.error(f"no test is selected by {' '.join(selection)}")
    if options.until is not None and time.time() >= options.until:
        print_not_run(tests, "the time was up")
        return 0
    run = Run(["ctest", "--test-dir", str(options.build), "--output-on-failure",
               "--resource-spec-file", str(memory_file(options.build, tests).absolute()),
               # tests/CMakeLists.txt says why twice. One more, for a test that mostly waits.
               "-j", str(2 * options.jobs + 1), *selection], tests)
    timer = None
    if options.until is not None:
        timer = threading.Timer(options.until - time.time(), run.stop)
        timer.start()
    try:
        status = run.follow()
    except KeyboardInterrupt:
        run.stop()
        return 130
    finally:
        if timer is not None:
            timer.cancel()
    logs = list((options.build / "Testing/Temporary").glob("LastTest.log*"))
    times = processor_times(max(logs, key=os.path.getmtime)) if logs else {}
    run.print_end(times)
    if options.figures:
        options.figures.write_text(json.dumps(
            {name: {"seconds": seconds, "processor_seconds": times.get(name)}
             for name, seconds in sorted(run.taken.items())}, indent=1) + "\n")
    return int(run.failed) if run.stopped else int(status != 0)


if __name__ == "__main__":
    sys.exit(main())

"""Runs PyTorch's own tests alone and under `optrace run`, and compares their outcomes.

    run_pytorch_tests.py --python VENV/bin/python --source DIR [--every N] [--json FILE] [FILE...]

VENV has requirements.txt and the torch whose source is in DIR. FILE is the name of a test file
below DIR/test; the default is all of FILES. --every N takes the first of every N tests in pytest's
order. A test whose outcome differs is run again alone: if it has the traced outcome there too, it
is unsteady. Exit status 0: no outcome differs except those of unsteady tests; 1: one does; 2: a
file does not exist.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

FILES = ("test_nn", "test_autograd", "test_torch", "test_view_ops", "test_python_dispatch",
         "functorch/test_vmap", "test_sparse", "test_multiprocessing", "test_dataloader",
         "test_jit", "profiler/test_profiler", "distributed/test_c10d_gloo", "dynamo/test_misc",
         "inductor/test_cpu_repro")
TEST_LIMIT = 300  # Timeout of a test, in seconds.
AGAIN = 3  # How often a test that differs is run again.


@dataclasses.dataclass
class Ran:
    outcomes: dict  # Test -> passed, failed, skipped or error.
    seconds: float
    processor: float  # Seconds of CPU time, with its child processes.
    memory: int  # The highest peak memory of one of its processes, in bytes.
    status: int
    said: str


class Suite:
    def __init__(self, optrace, python, source):
        self.optrace = str(pathlib.Path(optrace).absolute())
        self.python = str(pathlib.Path(python).absolute())
        # Some tests write files beside their own.
        self._scratch = tempfile.mkdtemp(prefix="pytorch-tests-")
        self.folder = pathlib.Path(self._scratch) / "test"
        shutil.copytree(pathlib.Path(source) / "test", self.folder, symlinks=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _pytest(self, file, *options):
        # PyTorch's conftest.py is for another version of pytest.
        return ["-m", "pytest", "--noconftest", "-c", os.devnull, "--rootdir", str(self.folder),
                "-p", "no:cacheprovider", "-q", *options, f"{file}.py"]

    def tests_of(self, file):
        """Returns the names of a file's tests, as listed by pytest."""
        said, status, _ = self._call([self.python, "-B", *self._pytest(file, "--collect-only")])
        names = [line for line in said.splitlines() if "::" in line]
        if status != 0 or not names:
            raise RuntimeError(f"{file} has no tests: {said[-2000:]}")
        return names

    def _call(self, command):
        """Returns the output, the exit status, and what the processes used."""
        with open(f"{self._scratch}/said", "w+b") as said:
            process = subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=said,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1",
                     "HYPOTHESIS_STORAGE_DIRECTORY": f"{self._scratch}/hypothesis"})
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            return said.read().decode(errors="replace"), process.returncode, usage

    def run(self, file, names, traced):
        names_file = pathlib.Path(self._scratch) / "names"
        names_file.write_text("".join(f"{name}\n" for name in names))
        results = pathlib.Path(self._scratch) / "results.xml"
        results.unlink(missing_ok=True)
        words = self._pytest(file, f"--junitxml={results}", f"--timeout={TEST_LIMIT}")
        words[-1] = f"@{names_file}"
        command = [self.python, *words]
        if traced:
            command = [self.optrace, "run", "--python", self.python,
                       "--format", "json", "-o", f"{self._scratch}/report.json", *words]
        began = time.monotonic()
        said, status, usage = self._call(command)
        return Ran(outcomes_in(results, file), time.monotonic() - began,
                   usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, status, said)


def outcomes_in(results, file):
    """Returns the outcomes in pytest's JUnit XML, without those of tests that never ended."""
    try:
        tree = xml.etree.ElementTree.parse(results)
    except (OSError, xml.etree.ElementTree.ParseError):
        return {}
    module = file.replace("/", ".")
    outcomes = {}
    for case in tree.iter("testcase"):
        group = case.get("classname", "").removeprefix(module).lstrip(".")
        kinds = {child.tag for child in case}
        outcomes[f"{group}::{case.get('name')}"] = (
            "error" if "error" in kinds else "failed" if "failure" in kinds else
            "skipped" if "skipped" in kinds else "passed")
    return outcomes


def compare(suite, file, every):
    """Returns one row of the table."""
    names = suite.tests_of(file)[::every]
    alone, traced = suite.run(file, names, False), suite.run(file, names, True)
    different = {name: (alone.outcomes.get(name, "missing"), traced.outcomes.get(name, "missing"))
                 for name in sorted({*alone.outcomes, *traced.outcomes})
                 if alone.outcomes.get(name) != traced.outcomes.get(name)}
    full_names = {name.split(".py::", 1)[1]: name for name in names}
    unsteady = {name for name, (_, outcome) in different.items()
                if name in full_names and any(
                    suite.run(file, [full_names[name]], False).outcomes.get(name) == outcome
                    for _ in range(AGAIN))}
    return {"file": file, "tests": len(names), "ran": len(alone.outcomes),
            "passed": sum(outcome == "passed" for outcome in alone.outcomes.values()),
            "different": {name: pair for name, pair in different.items() if name not in unsteady},
            "unsteady": sorted(unsteady), "seconds": [alone.seconds, traced.seconds],
            "processor": [alone.processor, traced.processor],
            "memory": [alone.memory, traced.memory],
            "status": [alone.status, traced.status],
            "said": "" if alone.outcomes and traced.outcomes else (alone if not alone.outcomes
                                                                   else traced).said[-3000:]}


def line_of(row):
    time_ratio, processor_ratio, memory_ratio = (
        row[what][1] / row[what][0] for what in ("seconds", "processor", "memory"))
    return (f"{row['file']:28} {row['tests']:6} {row['passed']:6} passed "
            f"{len(row['different']):4} differ {len(row['unsteady']):3} unsteady "
            f"{row['seconds'][0]:7.1f} s, {row['memory'][0] / 1e6:6.0f} MB; "
            f"traced {time_ratio:5.2f} times the time, {processor_ratio:5.2f} times the CPU time, "
            f"{memory_ratio:5.2f} times the memory")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--optrace", default="build/optrace")
    parser.add_argument("--python", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--every", type=int, default=1, metavar="N")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("files", nargs="*", default=FILES, metavar="FILE")
    options = parser.parse_args()
    for file in options.files:
        if not (pathlib.Path(options.source) / "test" / f"{file}.py").exists():
            print(f"There is no {file}.py in {options.source}/test.", file=sys.stderr)
            return 2
    rows = []
    with Suite(options.optrace, options.python, options.source) as suite:
        for file in options.files:
            rows.append(compare(suite, file, options.every))
            print(line_of(rows[-1]), flush=True)
            for name, (outcome, traced) in rows[-1]["different"].items():
                print(f"    {name}: {outcome} alone, {traced} traced", flush=True)
            if rows[-1]["said"]:
                print(rows[-1]["said"], flush=True)
            if options.json:
                pathlib.Path(options.json).write_text(json.dumps(rows, indent=1))
    return 1 if any(row["different"] or not row["ran"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())

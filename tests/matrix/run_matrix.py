"""Traces the same workloads with each CPython and each PyTorch wheel that can be installed here.

    run_matrix.py --optrace build/optrace [--python VERSION]... [--torch VERSION]...
                  [--folder FOLDER]
    run_matrix.py --optrace build/optrace --environment FOLDER...

VERSION of a Python is `3.12`; by default each one from 3.9 to 3.14 that is on this machine. VERSION
of torch is `2.9.1`, or `newest`; by default one old, one in between, and the newest. Environments
are made in FOLDER (default: .venv-matrix), one for each pair that PyPI has a wheel for, of 2 to
6 GB that uv shares between them; --environment takes one that exists. Prints a table in Markdown.
Exit status 0: every workload of every pair shows what it must; 1: one does not; 2: wrong usage.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PYTHONS = ["3.9", "3.10", "3.11", "3.12", "3.13", "3.14"]
TORCHES = ["2.6.0", "2.9.1", "newest"]
LIMIT = 600  # Timeout of a command, in seconds.

LOOP = """
import time, torch
x = torch.rand(8, 8)
print("ready", flush=True)
while True:
    torch.softmax(x, 0)
    time.sleep(0.001)
"""


class Lacking(Exception):
    """A report does not show what it must."""


def run(words):
    ended = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                           timeout=LIMIT, stdin=subprocess.DEVNULL)
    if ended.returncode != 0:
        raise Lacking((ended.stderr.strip() or f"exit status {ended.returncode}").splitlines()[-1])
    return ended.stdout


def all_frames(report):
    left = list(report["roots"])
    while left:
        frame = left.pop()
        left += frame["children"]
        yield frame


def require(text, wanted):
    """`text` is a report in JSON with a frame for each (layer, part of a name) in `wanted`."""
    found = list(all_frames(json.loads(text)))
    for layer, part in wanted:
        if not any(frame["layer"] == layer and part in f"{frame['name']} {frame['op']}"
                   for frame in found):
            raise Lacking(f"no frame of layer {layer} has {part} in its name")
    if not any(frame["symbol"] and (frame["source"] or {}).get("line") for frame in found):
        raise Lacking("no native frame has a line")


class Workloads:
    """Each public method is a workload, which raises Lacking."""

    def __init__(self, optrace, python):
        self.optrace = optrace
        self.python = python

    def _op(self, *words):
        return run([self.optrace, *words, "--python", self.python, "--format", "json"])

    def conv2d(self):
        require(self._op("nn.Conv2d"),
                [("python", "Conv2d.forward"), ("binding", "THPVariable_conv2d"),
                 ("kernel", "at::native::conv2d"), ("library", "dnnl")])

    def linear_backward(self):
        require(self._op("linear", "--backward"), [("kernel", "at::native::linear"),
                                                   ("autograd", "AddmmBackward0")])

    def softmax(self):
        require(self._op("softmax"), [("kernel", "at::native::softmax")])

    def attention(self):
        require(self._op("scaled_dot_product_attention"),
                [("kernel", "at::native::scaled_dot_product_attention")])

    def custom_op(self):
        program = REPOSITORY / "tests/programs/custom_ops.py"
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report"
            run([self.optrace, "run", "--python", self.python, "--format", "json", "-o", report,
                 program])
            found = {frame["op"] for frame in all_frames(json.loads(report.read_text()))}
        if all(op is None or op.startswith("aten::") for op in found):
            raise Lacking("only ops of aten are in the report")

    def attach(self):
        with subprocess.Popen([self.python, "-c", LOOP], stdout=subprocess.PIPE, text=True) as loop:
            try:
                loop.stdout.readline()
                require(run([self.optrace, "attach", loop.pid, "--duration", "2", "--format",
                             "json"]), [("kernel", "softmax")])
                if loop.poll() is not None:
                    raise Lacking("the process ended")
            finally:
                loop.kill()

    def dry_run(self):
        require(self._op("conv2d", "--device", "cuda", "--dry-run"), [("library", "cudnn")])


NAMES = [name for name in vars(Workloads) if not name.startswith("_")]


def make_environment(folder, python_version, torch):
    """The Python of an environment, or None if PyPI has no wheel or there is no such Python."""
    try:
        python = run([REPOSITORY / "setup/find-python.sh", python_version]).strip()
    except Lacking:
        return None
    requirements = folder / f"torch-{torch}.txt"
    requirements.write_text(("torch" if torch == "newest" else f"torch=={torch}") + "\nnumpy\n")
    environment = folder / f"{python_version}-{torch}"
    made = subprocess.run([REPOSITORY / "setup/make-venv.sh", environment, requirements],
                          env={**os.environ, "PYTHON": python}, stdout=sys.stderr, check=False)
    return environment / "bin/python" if made.returncode == 0 else None


def environments(given):
    """Yields (version of Python, version of torch, the Python or None) of each environment."""
    for environment in given.environment:
        python = environment / "bin/python"
        version = run([python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).strip()
        yield version, "", python
    if given.environment:
        return
    folder = given.folder.resolve()
    folder.mkdir(exist_ok=True)
    for torch in given.torch or TORCHES:
        for version in given.python or PYTHONS:
            yield version, torch, make_environment(folder, version, torch)


def row_of(workloads):
    """A cell for each workload, and whether all show what they must."""
    cells, passed = [], True
    for name in NAMES:
        try:
            getattr(workloads, name)()
            cells.append("yes")
        except (Lacking, subprocess.TimeoutExpired) as problem:
            cells.append(f"**no**: {problem}")
            passed = False
    return cells, passed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--optrace", type=pathlib.Path, required=True)
    parser.add_argument("--python", action="append", metavar="VERSION")
    parser.add_argument("--torch", action="append", metavar="VERSION")
    parser.add_argument("--folder", type=pathlib.Path, default=REPOSITORY / ".venv-matrix")
    parser.add_argument("--environment", action="append", type=pathlib.Path, default=[])
    given = parser.parse_args()
    if not os.access(given.optrace, os.X_OK):
        parser.error(f"{given.optrace} is not a program; build it with `make`")
    print("| Python | torch |", " | ".join(NAMES), "|")
    print("| --- " * (len(NAMES) + 2) + "|")
    all_passed = True
    for version, torch, python in environments(given):
        if python is None:
            print(f"| {version} | {torch} | no wheel for it, or no such Python |", flush=True)
            continue
        installed = run([python, "-c", "import importlib.metadata; "
                                       "print(importlib.metadata.version('torch'))"]).strip()
        cells, passed = row_of(Workloads(given.optrace.resolve(), python))
        all_passed &= passed
        print(f"| {version} | {installed} |", " | ".join(cells), "|", flush=True)
    return 0 if all_passed else 1


if __name__ == "__main__":
    sys.exit(main())

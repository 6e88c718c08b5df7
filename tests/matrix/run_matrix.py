"""Traces the same workloads with each CPython and each PyTorch wheel that can be installed here.

    run_matrix.py [--python VERSION]... [--torch VERSION]... [--folder FOLDER]
    run_matrix.py [--pair PYTHON TORCH]...

VERSION of a Python is `3.12`; by default each one from 3.9 to 3.14 that is on this machine. VERSION
of torch is `2.9.1`, or `newest`; by default 2.6.0, 2.8.0, 2.10.0 and the newest. Environments are
made in FOLDER (default: .venv-matrix), one for each pair that PyPI has a wheel for, of 2 to 6 GB
that uv shares between them; a pair that was named must have one.

What optrace has ready for each torch is made in the build folder BUILD (default: build) where it is
missing. The wheels of `make wheel` are made from BUILD and installed as pip does it, beside each
torch. The first run has an empty cache and no compiler; its time is given
with that of the same calls without optrace. Prints a table in Markdown. Exit status 0: every
workload of every pair shows what it must; 1: one does not; 2: wrong usage.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PYTHONS = ["3.9", "3.10", "3.11", "3.12", "3.13", "3.14"]
TORCHES = ["2.6.0", "2.8.0", "2.10.0", "newest"]
LIMIT = 600  # Timeout of a command, in seconds.


class Lacking(Exception):
    """A report does not show what it must."""


# What `optrace conv2d` calls.
BARE = "import torch; torch.nn.Conv2d(3, 8, 3)(torch.rand(4, 3, 56, 56))"


def run(words, **options):
    ended = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                           timeout=LIMIT, stdin=subprocess.DEVNULL, **options)
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

    def first_run(self):
        """Returns what the cell shows."""
        bare = min(self._seconds([self.python, "-c", BARE]) for _ in range(2))
        with tempfile.TemporaryDirectory() as cache:
            environment = {"PATH": "/nonexistent", "HOME": cache, "OPTRACE_BACKGROUND": "0"}
            first = self._seconds([self.optrace, "conv2d", "-o", f"{cache}/tree"], env=environment)
            text = pathlib.Path(cache, "tree").read_text()
        if "C++ compiler" in text:
            raise Lacking("something had to be compiled")
        return f"{first:.1f} s, {first / bare:.1f} times {bare:.1f} s"

    @staticmethod
    def _seconds(words, **options):
        begin = time.monotonic()
        run(words, **options)
        return time.monotonic() - begin

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
        program = REPOSITORY / "tests/matrix/softmax_loop.py"
        with subprocess.Popen([self.python, program], stdout=subprocess.PIPE, text=True) as loop:
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
    folder = given.folder.resolve()
    folder.mkdir(exist_ok=True)
    pairs = given.pair or [(version, torch) for torch in given.torch or TORCHES
                           for version in given.python or PYTHONS]
    for version, torch in pairs:
        yield version, torch, make_environment(folder, version, torch)


def prebuild(build, pythons):
    """Makes what is missing of what optrace ships for the torches of these Pythons."""
    where = "import importlib.util as i; print(*i.find_spec('torch').submodule_search_locations)"
    torches = [run([python, "-c", where]).strip() for python in pythons]
    run([build / "optrace-prebuild", build / "lib/optrace/prebuilt", *torches])


def make_wheels(build, folder, pythons):
    """Puts the wheels for these Pythons into the folder."""
    run([REPOSITORY / "setup/make-venv.sh", ".venv-wheel", "setup/requirements-wheel.txt"],
        cwd=REPOSITORY)
    run([REPOSITORY / ".venv-wheel/bin/python", REPOSITORY / "setup/make-wheel.py", build, folder,
         *pythons], cwd=REPOSITORY)


def install(python, wheels, folder):
    """Makes an environment that has optrace and the packages of another one; returns its programs'
    folder. The other one is left as it is."""
    run([python, "-m", "venv", "--without-pip", folder])
    run([REPOSITORY / ".setup/uv/bin/uv", "pip", "install", "--python", folder / "bin/python",
         "--find-links", wheels, "optrace"],
        env={**os.environ, "UV_CACHE_DIR": str(REPOSITORY / ".setup/uv-cache")})
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = run([python, "-c", where]).strip()
    own = pathlib.Path(run([folder / "bin/python", "-c", where]).strip())
    (own / "of_the_matrix.pth").write_text(f"{packages}\n")
    return folder / "bin"


def row_of(workloads):
    """A cell for each workload, and whether all show what they must."""
    cells, passed = [], True
    for name in NAMES:
        try:
            cells.append(getattr(workloads, name)() or "yes")
        except (Lacking, subprocess.TimeoutExpired) as problem:
            cells.append(f"**no**: {problem}")
            passed = False
    return cells, passed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=REPOSITORY / "build")
    parser.add_argument("--python", action="append", metavar="VERSION")
    parser.add_argument("--torch", action="append", metavar="VERSION")
    parser.add_argument("--pair", action="append", nargs=2, metavar=("PYTHON", "TORCH"))
    parser.add_argument("--folder", type=pathlib.Path, default=REPOSITORY / ".venv-matrix")
    given = parser.parse_args()
    if not os.access(given.build / "optrace", os.X_OK):
        parser.error(f"{given.build} has no optrace; build it with `make build`")
    found = list(environments(given))
    with tempfile.TemporaryDirectory() as scratch:
        status = print_table(given.build.resolve(), found, pathlib.Path(scratch))
    return 1 if given.pair and not all(python for _, _, python in found) else status


def print_table(build, found, scratch):
    prebuild(build, [python for _, _, python in found if python])
    wheels = scratch / "wheels"
    make_wheels(build, wheels, {version: python for version, _, python in found if python}.values())
    print("| Python | torch |", " | ".join(NAMES), "|")
    print("| --- " * (len(NAMES) + 2) + "|")
    all_passed = True
    for number, (version, torch, python) in enumerate(found):
        if python is None:
            print(f"| {version} | {torch} | no wheel for it, or no such Python |", flush=True)
            continue
        installed = run([python, "-c", "import importlib.metadata; "
                                       "print(importlib.metadata.version('torch'))"]).strip()
        programs = install(python, wheels, scratch / str(number))
        cells, passed = row_of(Workloads(programs / "optrace", programs / "python"))
        all_passed &= passed
        print(f"| {version} | {installed} |", " | ".join(cells), "|", flush=True)
    return 0 if all_passed else 1


if __name__ == "__main__":
    sys.exit(main())

"""Runs programs together with other tools that inspect a process or change how it runs (profilers,
debuggers, event loops, prefork servers, frameworks): each alone, under `optrace run`, and with
`optrace attach` while it runs.

    run_neighbours.py --optrace build/optrace --python VENV/bin/python [--mode MODE]... [NAME...]

VENV has requirements.txt and torch. The output, the exit status and the errors of a program must be
the same each time. Exit status 0: all are the same; 1: one differs; 2: a name is unknown.
"""
import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
MODES = ("run", "attach")
LIMIT = 300  # Timeout of a program, in seconds.
ROUNDS = {"alone": 3, "run": 3, "attach": 24}
PAUSE = 0.3  # Seconds after each round, if another process attaches.


@dataclasses.dataclass
class Neighbour:
    """How a program is started, and which other tools inspect it."""
    words: list  # Arguments of python; {folder} is a new folder.
    children: bool = False  # True if processes that it starts do the work.
    meddlers: tuple = ()  # Commands with {pid}, run repeatedly while the program runs.
    before: tuple = ()  # Commands with {pid}, run once before `optrace attach`.
    after: tuple = ()  # Commands with {pid}, run once after `optrace attach`.
    prefix: tuple = ()  # The command that starts python.
    environment: tuple = ()  # One variable and its value.
    modes: tuple = MODES
    status: int = 0  # The expected exit status.


def script(name, **options):
    return Neighbour([str(PROGRAMS / f"{name}.py")], **options)


_ROUNDS = str(PROGRAMS / "rounds.py")
_PY_SPY = ("{venv}/bin/py-spy", "dump", "--pid", "{pid}")
_GDB = ("gdb", "-nx", "-batch", "-p", "{pid}", "-ex", "thread apply all bt 3")
NEIGHBOURS = {
    "nothing": script("rounds"),
    "coverage": script("coverage_lines"),
    "debugpy": Neighbour(["-m", "debugpy", "--listen", "127.0.0.1:0", _ROUNDS]),
    "cProfile": Neighbour(["-m", "cProfile", "-o", "{folder}/profile", _ROUNDS]),
    "profilers in the program": script("python_profilers"),
    "settrace": script("tracing"),
    "py-spy": script("rounds", meddlers=(_PY_SPY,)),
    "memray": Neighbour(["-m", "memray", "run", "--native", "-q", "-o", "{folder}/memory",
                         _ROUNDS]),
    "memray and py-spy": Neighbour(["-m", "memray", "run", "-q", "-o", "{folder}/memory", _ROUNDS],
                                   meddlers=(_PY_SPY,)),
    "gdb": script("rounds", before=(_GDB,), after=(_GDB,)),
    "torch.profiler": script("torch_profiler"),
    "viztracer": Neighbour(["-m", "viztracer", "--quiet", "-o", "{folder}/trace.json", _ROUNDS]),
    "faulthandler": script("fault_handler", status=-signal.SIGSEGV),
    "uvloop": script("uvloop_server"),
    "gevent": script("gevent_threads"),
    "greenlet": script("greenlets"),
    "celery": script("celery_prefork", children=True),
    "gunicorn": script("gunicorn_prefork", children=True),
    "pytest-xdist": script("xdist_suite", children=True, modes=("run",), status=1),
    "ray": script("ray_tasks", children=True),
    "lightning": script("lightning_training"),
    "transformers": script("transformers_model"),
    "thread pools": script("thread_pools"),
    "deep threads": script("deep_stack_threads"),
    "64 kB stacks": script("small_stacks"),
    "subinterpreters": script("subinterpreters"),
    "ulimits": script("limits"),
    "seccomp": script("seccomp"),
    "small /dev/shm": script("rounds", prefix=(
        "unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=64k none /dev/shm && exec "$@"', "-")),
    "read-only home": script("rounds", prefix=(
        "unshare", "-m", "sh", "-c",
        'mkdir "$HOME" && mount -t tmpfs -o ro none "$HOME" && exec "$@"', "-"),
        environment=("HOME", "{folder}/home")),
}

# Output that differs between any two runs of a program, traced or not.
_VARIES = re.compile(r"ERROR:\d{4}-\d\d-\d\d [\d:]+ [\d:]+|0x[0-9a-f]+|"
                     r"\b\d+\.\d+ ?s(econds)?\b|\bin \d+\.\d+s|pid[= ]\d+|LWP \d+|"
                     r"Thread 0x[0-9a-f]+")


@dataclasses.dataclass
class Outcome:
    output: str
    errors: str
    status: int
    seconds: float
    notes: list

    def difference(self, other):
        """Returns the difference in one line; empty if there is none."""
        # A shell and `optrace run` report a program that a signal ended as 128 plus the signal.
        mine, theirs = (128 - status if status < 0 else status
                        for status in (self.status, other.status))
        if mine != theirs:
            return f"exit status {mine} instead of {theirs}: {self.errors[-800:]}"
        for what in ("output", "errors"):
            mine, theirs = (sorted(line for line in
                                   _VARIES.sub("_", getattr(outcome, what)).splitlines()
                                   if not line.startswith("optrace: "))
                            for outcome in (self, other))
            if mine != theirs:
                more = [line for line in mine if line not in theirs]
                less = [line for line in theirs if line not in mine]
                return f"{what}: more {more[:4]}, less {less[:4]}"
        return ""


def running_program(process, words, children=False):
    """Returns the PID of the program, which is `process` or below it; None if there is none yet.
    With `children`: the highest PID of those that have loaded libtorch_python."""
    waiting, found = [process.pid], []
    while waiting:
        pid = waiting.pop()
        try:
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if children and b"libtorch_python" in pathlib.Path(f"/proc/{pid}/maps").read_bytes():
                found.append(pid)
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                waiting += map(int, (task / "children").read_text().split())
        except OSError:
            continue
        if not children and b"python" in command[0] and os.fsencode(words[-1]) in command:
            return pid
    return max(found, default=None)


def recorded_an_op(folder):
    return any('"op":"aten::' in path.read_text().replace('"op": ', '"op":')
               for path in pathlib.Path(folder).glob("report*.json"))


class Runner:
    def __init__(self, optrace, python):
        self.optrace = str(pathlib.Path(optrace).absolute())
        self.python = str(pathlib.Path(python).absolute())

    def run(self, neighbour, mode, rounds):
        folder = tempfile.mkdtemp(prefix="neighbours-")
        try:
            return self._run(neighbour, mode, rounds, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _run(self, neighbour, mode, rounds, folder):
        words = [word.replace("{folder}", folder) for word in neighbour.words]
        command = [*neighbour.prefix, self.python, *words]
        if mode == "run":
            options = ["--children"] if neighbour.children else []
            command = [*neighbour.prefix, self.optrace, "run", *options, "--python", self.python,
                       "--format", "json", "-o", f"{folder}/report.json", *words]
        own = [word.replace("{folder}", folder) for word in neighbour.environment]
        environment = {
            **os.environ, "PYTHONDONTWRITEBYTECODE": "1", "ROUNDS": str(rounds),
            "PAUSE": str(PAUSE if mode == "attach" or neighbour.meddlers else 0),
            "CELERY_FOLDER": folder, "TMPDIR": folder, "PYDEVD_DISABLE_FILE_VALIDATION": "1",
            **dict([own] if own else [])}
        notes, began = [], time.monotonic()
        with open(f"{folder}/output", "w+") as output, open(f"{folder}/errors", "w+") as errors:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=errors, env=environment, cwd=folder,
                                       start_new_session=True)
            try:
                if mode == "attach":
                    notes += self._attach(neighbour, process, words, folder)
                elif neighbour.meddlers:
                    notes += self._meddle(neighbour.meddlers, process, words, 5)
                process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                notes.append(f"did not end in {LIMIT} s")
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()
            output.seek(0)
            errors.seek(0)
            if mode != "alone" and not notes and not recorded_an_op(folder):
                notes.append("no op is in the report")
            return Outcome(output.read(), errors.read(), process.returncode,
                           time.monotonic() - began, notes)

    def _wait_for_output(self, process, folder):
        while process.poll() is None and not os.path.getsize(f"{folder}/output"):
            time.sleep(0.05)

    def _look(self, command, pid):
        venv = str(pathlib.Path(self.python).parents[1])
        looked = subprocess.run([word.format(pid=pid, venv=venv) for word in command],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, check=False, timeout=LIMIT)
        if looked.returncode == 0:
            return []
        return [f"{command[0]} ended with {looked.returncode}: {looked.stdout[-300:]}"]

    def _meddle(self, commands, process, words, times):
        notes = []
        for _ in range(times):
            time.sleep(0.7)
            pid = running_program(process, words)
            if process.poll() is not None or pid is None:
                break
            for command in commands:
                notes += self._look(command, pid)
        return notes[:1]

    def _attach(self, neighbour, process, words, folder):
        self._wait_for_output(process, folder)
        pid = running_program(process, words, neighbour.children)
        if pid is None:
            return ["was gone before anybody attached"]
        notes = []
        for command in neighbour.before:
            notes += self._look(command, pid)
        attached = subprocess.Popen(
            [self.optrace, "attach", str(pid), "--duration", "2", "--format", "json",
             "-o", f"{folder}/report.json"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if neighbour.meddlers:
            notes += self._meddle(neighbour.meddlers, process, words, 3)
        said, _ = attached.communicate(timeout=LIMIT)
        if attached.returncode != 0:
            notes.append(f"attach ended with {attached.returncode}: {said.strip()[-400:]}")
        elif process.poll() is not None:
            notes.append("the program had ended before attach did")
        for command in neighbour.after:
            notes += self._look(command, pid)
        return notes


def compare(runner, name, modes):
    """Prints a line for each mode; returns the number of modes that differ."""
    neighbour, wrong = NEIGHBOURS[name], 0
    for mode in modes:
        if mode not in neighbour.modes:
            continue
        rounds = ROUNDS[mode]
        alone = runner.run(neighbour, "alone", rounds)
        traced = runner.run(neighbour, mode, rounds)
        difference = "; ".join(filter(None, [traced.difference(alone), *traced.notes]))
        if alone.status != neighbour.status:
            difference = f"it fails alone, with {alone.status}: {alone.errors[-600:]}"
        wrong += bool(difference)
        print(f"{name:26} {mode:7} {'DIFFERS ' if difference else 'the same'} "
              f"{alone.seconds:6.1f} s alone {traced.seconds:6.1f} s  {difference}", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--optrace", default="build/optrace")
    parser.add_argument("--python", required=True)
    parser.add_argument("--mode", action="append", choices=MODES)
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in NEIGHBOURS]
    if unknown:
        print(f"There is no program {unknown[0]!r}. There are: {', '.join(NEIGHBOURS)}.",
              file=sys.stderr)
        return 2
    runner = Runner(options.optrace, options.python)
    wrong = sum(compare(runner, name, options.mode or MODES)
                for name in options.names or NEIGHBOURS)
    print(f"{wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

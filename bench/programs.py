"""Measures whole programs under `optrace run`, compared with the same programs alone.

    programs.py BUILD_FOLDER [--rounds N] [PROGRAM...]

PROGRAM is a key of PROGRAMS below; the default is all. Each round runs a program alone and under
optrace, in turn. The first run of each kind warms up and is not counted. Prints medians of wall
time and CPU time (user and system, with all child processes), the medians of their ratios in the
same round, and the size of the trace. A program that prints a number prints the milliseconds of a
step.
"""
import argparse
import dataclasses
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

FOLDER = pathlib.Path(__file__).resolve().parent / "programs"


@dataclasses.dataclass
class Program:
    file: str
    # With an empty folder for the caches of torch.compile in each run.
    compiles_cold: bool = False


PROGRAMS = {
    "gpt": Program("gpt_training.py"),
    "compile-cold": Program("compiled_function.py", compiles_cold=True),
    "compile-warm": Program("compiled_function.py"),
    "dynamo-import": Program("dynamo_import.py"),
}


@dataclasses.dataclass
class Run:
    wall: float  # Seconds.
    processor: float  # Seconds of CPU time.
    step: float  # Milliseconds; 0 for a program that prints none.


def run_once(command, environment):
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    ended = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Run(wall, processor, float(ended.stdout or 0))


def run_program(program, optrace, scratch):
    """Runs a program alone, or with the command `optrace`; returns a Run."""
    file = str(FOLDER / program.file)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        caches = folder if program.compiles_cold else os.path.join(scratch, "warm")
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": caches}
        if optrace is None:
            return run_once([sys.executable, file], environment)
        return run_once([optrace, "run", "--python", sys.executable, "--trace",
                         os.path.join(scratch, "trace"), "-o", os.path.join(folder, "report"),
                         file], environment)


def measure(name, program, optrace, rounds):
    with tempfile.TemporaryDirectory() as scratch:
        for command in (None, optrace):
            run_program(program, command, scratch)
        pairs = [(run_program(program, None, scratch), run_program(program, optrace, scratch))
                 for _ in range(rounds)]
        size = os.path.getsize(os.path.join(scratch, "trace"))
    print(f"{name} ({program.file}), {rounds} rounds, medians")
    for what, unit in (("wall", "s"), ("processor", "s"), ("step", "ms")):
        alone = [getattr(run, what) for run, _ in pairs]
        traced = [getattr(run, what) for _, run in pairs]
        if not any(alone):
            continue
        ratio = statistics.median([b / a for a, b in zip(alone, traced)])
        print(f"  {what:<10} alone {statistics.median(alone):8.2f} {unit:<2}  optrace run "
              f"{statistics.median(traced):8.2f} {unit:<2}  {ratio:6.2f} x")
    print(f"  trace      {size / 1e3:.0f} kB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM",
                        help=f"one of {', '.join(PROGRAMS)}; the default is all")
    options = parser.parse_intermixed_args()
    if unknown := set(options.programs) - PROGRAMS.keys():
        parser.error(f"no such program: {', '.join(sorted(unknown))}; there are "
                     f"{', '.join(PROGRAMS)}")
    optrace = str(options.build.absolute() / "optrace")
    for name in options.programs or PROGRAMS:
        measure(name, PROGRAMS[name], optrace, options.rounds)


main()

"""Measures whole programs under `optrace run`, compared with the same programs alone.

    programs.py BUILD_FOLDER [--rounds N] [PROGRAM...]

PROGRAM is a key of PROGRAMS below; the default is all. Each round runs a program alone, under
optrace, and if it has steps also under torch.profiler with stacks, in turn. The first run of each
kind warms up and is not counted. Prints medians of wall time and CPU time (user and system, with
all child processes), the medians of their ratios in the same round, and the size of the trace. A
program that prints a number prints the milliseconds of a step.
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
    # Also under torch.profiler with stacks.
    profiled: bool = False


PROGRAMS = {
    "gpt": Program("gpt_training.py", profiled=True),
    "resnet50": Program("resnet50_training.py", profiled=True),
    "compile-cold": Program("compiled_function.py", compiles_cold=True),
    "compile-warm": Program("compiled_function.py"),
    "dynamo-import": Program("dynamo_import.py"),
}


WAYS = ("alone", "torch.profiler", "optrace run")


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


def run_program(program, way, scratch, optrace):
    """Runs a program in one of WAYS; returns a Run."""
    file = str(FOLDER / program.file)
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        caches = folder if program.compiles_cold else os.path.join(scratch, "warm")
        command = {
            "alone": [sys.executable, file],
            "torch.profiler": [sys.executable, str(FOLDER / "profiled.py"), file],
            "optrace run": [optrace, "run", "--python", sys.executable, "--trace",
                            os.path.join(scratch, "trace"), "-o", os.path.join(folder, "report"),
                            file],
        }[way]
        return run_once(command, {**os.environ, "TORCHINDUCTOR_CACHE_DIR": caches})


def measure(name, program, optrace, rounds):
    ways = [way for way in WAYS if way != "torch.profiler" or program.profiled]
    with tempfile.TemporaryDirectory() as scratch:
        turns = [{way: run_program(program, way, scratch, optrace) for way in ways}
                 for _ in range(rounds + 1)][1:]
        size = os.path.getsize(os.path.join(scratch, "trace"))
    print(f"{name} ({program.file}), {rounds} rounds, medians")
    for what, unit in (("wall", "s"), ("processor", "s"), ("step", "ms")):
        alone = [getattr(runs["alone"], what) for runs in turns]
        if not any(alone):
            continue
        text = f"  {what:<10} alone {statistics.median(alone):8.2f} {unit:<2}"
        for way in ways[1:]:
            times = [getattr(runs[way], what) for runs in turns]
            ratio = statistics.median([b / a for a, b in zip(alone, times)])
            text += f"  {way} {statistics.median(times):8.2f} {unit:<2} {ratio:6.2f} x"
        print(text)
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

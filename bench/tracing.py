"""Measures the cost of tracing a program, compared with torch.profiler and with no tracing.

    tracing.py BUILD_FOLDER

In this one process, in turn: a 1 us `add`, untraced, under torch.profiler without and with stacks,
under optrace with probes alone and with everything on, and after the probes are removed. Then,
through the command: the memory of a traced program, and the time to render a timeline of a million
events. Prints medians, and the medians of the ratios to untraced in the same round.
"""
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(sys.argv[1]).absolute()
sys.path.insert(0, str(BUILD / "python"))

import torch  # noqa: E402

import optrace  # noqa: E402

ADD_CALLS = 20_000
ADD_ROUNDS = 7

MEMORY = """
import sys, torch
def rss():
    return [int(line.split()[1]) for line in open("/proc/self/status")
            if line.startswith("VmRSS")][0]
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(8)])
for _ in range(300):
    model(torch.ones(8, 64)).sum().backward()
print(rss())
"""

MILLION = """
import torch
a = torch.ones(4)
for _ in range(20_000):
    torch.add(a, a)
"""


def seconds(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def profiled(work, with_stack):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                with_stack=with_stack):
        return seconds(work)


def traced(work, **options):
    with optrace.trace(**options):
        return seconds(work)


def compare(name, work, rounds, scale, unit):
    ways = {
        "untraced": lambda: seconds(work),
        "torch.profiler": lambda: profiled(work, False),
        "torch.profiler with_stack=True": lambda: profiled(work, True),
        "optrace, probes alone": lambda: traced(work, op_records=False, python_frames=False),
        "optrace, everything": lambda: traced(work),
        "after removal": lambda: seconds(work),
    }
    work()
    for run in ways.values():
        run()  # Warms up; not counted.
    times = [{way: run() for way, run in ways.items()} for _ in range(rounds)]
    print(f"{name}, {rounds} rounds, medians")
    for way in ways:
        middle = statistics.median(times_of[way] for times_of in times)
        ratio = statistics.median(times_of[way] / times_of["untraced"] for times_of in times)
        print(f"  {way:<32} {middle * scale:8.2f} {unit}  {ratio:5.2f} x", flush=True)


def main():
    torch.set_num_threads(1)
    a, b = torch.ones(4), torch.ones(4)

    def adds():
        for _ in range(ADD_CALLS):
            torch.add(a, b)

    compare(f"torch {torch.__version__}: torch.add of 4 floats", adds, ADD_ROUNDS, 1e6 / ADD_CALLS,
            "us")
    with tempfile.TemporaryDirectory() as folder:
        command = str(BUILD / "optrace")
        alone = subprocess.run([sys.executable, "-c", MEMORY], check=True, capture_output=True)
        under = subprocess.run([command, "run", "--python", sys.executable, "-o",
                                os.path.join(folder, "report"), "-c", MEMORY], check=True,
                               capture_output=True)
        more = int(under.stdout) - int(alone.stdout)
        print(f"memory of a traced program: {more / 1024:.0f} MiB more than untraced")
        timeline = os.path.join(folder, "million.trace")
        subprocess.run([command, "run", "--python", sys.executable, "--timeline", "--trace",
                        timeline, "-o", os.path.join(folder, "report"), "-c", MILLION], check=True)
        rendering = seconds(lambda: subprocess.run([command, "report", timeline], check=True,
                                                   capture_output=True))
        print(f"rendering a timeline of {os.path.getsize(timeline) / 1e6:.1f} MB: "
              f"{rendering:.2f} s")


main()

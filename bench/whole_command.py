"""Measures how long `optrace conv2d` takes, compared with Python alone making the same call once.

    whole_command.py [BUILD_FOLDER] [ROUNDS]

Whole processes, one of each in turn: wall time, and processor time of all processes. The first
round does not count: it warms the file cache and fills optrace's cache, which begins empty. The
first run with a torch also makes the plans of probes. Python is the one that runs this file.
"""
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ALONE = """\
import torch
convolution = torch.nn.Conv2d(3, 8, 3)
convolution(torch.randn(4, 3, 56, 56))
"""
# The traced Python ends like this, without waiting for its modules to be torn down.
WITHOUT_TEARDOWN = ALONE + "import os\nos._exit(0)\n"
FIRST = "optrace conv2d, first run"
LATER = "optrace conv2d"


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def wall_and_processor_seconds(command):
    begin = time.perf_counter()
    before = processor_seconds()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin, processor_seconds() - before


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build")
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 15
    conv2d = [str(build / "optrace"), "conv2d", "--python", sys.executable]
    commands = {
        "python -c": [sys.executable, "-c", ALONE],
        "python -c, no teardown": [sys.executable, "-c", WITHOUT_TEARDOWN],
        FIRST: conv2d,
        LATER: conv2d,
    }
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache

        def measure(name):
            if name == FIRST:
                shutil.rmtree(pathlib.Path(cache) / "optrace" / "plans", ignore_errors=True)
            return wall_and_processor_seconds(commands[name])

        rounds = [{name: measure(name) for name in commands} for _ in range(count + 1)][1:]
    print(f"by turns, {count} rounds, {os.cpu_count()} processors; ratios: {LATER} to each")
    for name in commands:
        wall, processor = zip(*(times[name] for times in rounds))
        ratio = statistics.median(times[LATER][0] / times[name][0] for times in rounds)
        print(f"  {name:<26} median {statistics.median(wall):5.2f} s   least {min(wall):5.2f} s   "
              f"ratio {ratio:5.2f}   processor {statistics.median(processor):5.2f} s")
    plans = statistics.median(times[FIRST][1] - times[LATER][1] for times in rounds)
    print(f"  making all plans, processor time: {plans:.2f} s")


main()

"""Measures how long `optrace conv2d` takes, compared with Python alone making the same call once.

    whole_command.py [BUILD_FOLDER] [ROUNDS]

Wall times of whole processes, one of each in turn. The first round does not count: it warms the
file cache and fills optrace's cache of probe plans. Python is the one that runs this file.
"""
import os
import pathlib
import statistics
import subprocess
import sys
import time

ALONE = """\
import torch
convolution = torch.nn.Conv2d(3, 8, 3)
convolution(torch.randn(4, 3, 56, 56))
"""
# The traced Python ends like this, without waiting for its modules to be torn down.
WITHOUT_TEARDOWN = ALONE + "import os\nos._exit(0)\n"


def seconds(command):
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build")
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 15
    commands = {
        "python -c": [sys.executable, "-c", ALONE],
        "python -c, no teardown": [sys.executable, "-c", WITHOUT_TEARDOWN],
        "optrace conv2d": [str(build / "optrace"), "conv2d", "--python", sys.executable],
    }
    rounds = [[seconds(command) for command in commands.values()] for _ in range(count + 1)][1:]
    print(f"by turns, {count} rounds, {os.cpu_count()} processors; ratios: optrace to each")
    for i, name in enumerate(commands):
        ratio = statistics.median(times[-1] / times[i] for times in rounds)
        column = [times[i] for times in rounds]
        print(f"  {name:<24} median {statistics.median(column):5.2f} s   "
              f"least {min(column):5.2f} s   ratio {ratio:5.2f}")


main()

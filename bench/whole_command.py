"""How long `optrace conv2d` takes beside Python alone making the same call once.

    whole_command.py [BUILD_FOLDER] [PAIRS]

Wall times of whole processes, one of each by turns, the first pair uncounted: it warms the file
cache and fills optrace's cache of probe plans. Python is the one that runs this file.
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


def seconds(command):
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build")
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else 15
    alone = [sys.executable, "-c", ALONE]
    traced = [str(build / "optrace"), "conv2d", "--python", sys.executable]
    times = [(seconds(alone), seconds(traced)) for _ in range(pairs + 1)][1:]
    ratios = [after / before for before, after in times]
    print(f"python -c and optrace conv2d by turns, {pairs} pairs, {os.cpu_count()} processors")
    for name, column in (("python -c", 0), ("optrace conv2d", 1)):
        values = [pair[column] for pair in times]
        print(f"  {name:<16} median {statistics.median(values):5.2f} s   "
              f"least {min(values):5.2f} s")
    print(f"  ratio            median {statistics.median(ratios):5.2f}     "
          f"of the least {min(t for _, t in times) / min(a for a, _ in times):5.2f}")


main()

"""Cost of recording what functions returned (`optrace run --decisions`), as ratios of the time
that a loop of convolutions takes: 1,000 calls after a warm-up, the shortest of several
runs. All runs are traced, on one thread, and that with `none` is the unit.

    decisions.py OPTRACE PYTHON
"""
import re
import subprocess
import sys

RUNS = 4
PROGRAM = """
import time, torch
torch.set_num_threads(1)
weight, image = torch.ones(8, 3, 3, 3), torch.ones(1, 3, 16, 16)
with torch.no_grad():
    for _ in range(200):
        torch.conv2d(image, weight)
    begin = time.perf_counter()
    for _ in range(1000):
        torch.conv2d(image, weight)
    print("seconds", time.perf_counter() - begin)
"""


def seconds(command, python, decisions):
    printed = subprocess.run(
        [command, "run", "--python", python, "--decisions", decisions, "-o", "/dev/null", "-c",
         PROGRAM], check=True, capture_output=True, text=True).stdout
    return float(re.search(r"seconds ([\d.e-]+)", printed).group(1))


def main():
    command, python = sys.argv[1:]
    times = {decisions: [] for decisions in ("none", "first", "all")}
    for _ in range(RUNS):
        for decisions, taken in times.items():
            taken.append(seconds(command, python, decisions))
    unit = min(times["none"])
    for decisions, taken in times.items():
        print("--decisions %-5s %6.2f ms per 1,000 calls, ratio to none %.2f"
              % (decisions, min(taken) * 1000, min(taken) / unit))


if __name__ == "__main__":
    main()

"""Measures a training step outside of a window, compared with the same step without optrace.

    window.py BUILD_FOLDER [--rounds N]

In each round, a small model is trained three times, in turn: alone; under `optrace run --from-step`
with a window of two steps in the middle; and alone with two steps in optrace.trace(). Prints the
time that a tenth of the steps before and after the window stay below, the medians of its ratios to
that of the program alone in the same round, and how much longer the steps take in which probes are
placed and removed.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

STEPS = 3000
FIRST = 1500  # Of the window.
COUNT = 2
MARGIN = 100  # Steps at the begin and around the window that are not measured.

PROGRAM = f"""
import json, sys, time, torch
torch.manual_seed(0)
torch.set_num_threads(1)
if sys.argv[1] == "module":
    import optrace
    block = optrace.trace()
    with block:  # Makes the plans.
        pass
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(8, 64)
times = []
for number in range(1, {STEPS} + 1):
    begin = time.perf_counter()
    if sys.argv[1] == "module" and number == {FIRST}:
        block.start()
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    if sys.argv[1] == "module" and number == {FIRST} + {COUNT} - 1:
        block.stop()
    times.append(time.perf_counter() - begin)
print(json.dumps(times))
"""


def quickest(times):
    """Returns the time that a tenth of the steps stay below: that of a step that was left alone."""
    return statistics.quantiles(times, n=10)[0]


def run_once(build, kind):
    """Returns the seconds of each step."""
    command = [sys.executable, "-c", PROGRAM, kind]
    if kind == "window":
        command = [str(build / "optrace"), "run", "--python", sys.executable, "-o", os.devnull,
                   "--from-step", str(FIRST), "--count", str(COUNT), *command[1:]]
    environment = {**os.environ, "PYTHONPATH": str(build / "python")}
    ended = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(ended.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    build = options.build.absolute()
    kinds = {"window": "optrace run --from-step", "module": "optrace.trace()"}
    for kind in ("alone", *kinds):  # Warms up.
        run_once(build, kind)
    rounds = [{kind: run_once(build, kind) for kind in ("alone", *kinds)}
              for _ in range(options.rounds)]
    parts = {"before the window": slice(MARGIN, FIRST - MARGIN),
             "after the window": slice(FIRST + MARGIN, STEPS)}
    for kind, name in kinds.items():
        print(f"{name}, {options.rounds} rounds, medians")
        for part, steps in parts.items():
            alone = [quickest(times["alone"][steps]) for times in rounds]
            traced = [quickest(times[kind][steps]) for times in rounds]
            ratio = statistics.median([b / a for a, b in zip(alone, traced)])
            print(f"  {part:<18} alone {1e6 * statistics.median(alone):7.1f} us  with optrace "
                  f"{1e6 * statistics.median(traced):7.1f} us  {ratio:6.3f} x")
        # `run` places probes at the end of the step before the window.
        for what, number in (("placing probes", FIRST - 1 if kind == "window" else FIRST),
                             ("removing them", FIRST + COUNT - 1)):
            longer = [times[kind][number - 1] - times["alone"][number - 1] for times in rounds]
            print(f"  {what:<18} {1e3 * statistics.median(longer):7.1f} ms", flush=True)


main()

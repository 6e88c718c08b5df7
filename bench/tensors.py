"""Measures the log of tensors: steps of a small model under `optrace run --tensors`, against
those under `optrace run`, those of the program alone, and those under torch.profiler with shapes,
memory and stacks. The program times its own steps.

    tensors.py BUILD_FOLDER [ROUNDS]
"""
import pathlib
import statistics
import subprocess
import sys
import tempfile

PROGRAM = """
import contextlib, sys, time, torch
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
optimizer = torch.optim.Adam(model.parameters())
x = torch.randn(32, 64)
def step():
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
for _ in range(5):
    step()
profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                  record_shapes=True, profile_memory=True, with_stack=True)
with profiler if sys.argv[1:] == ["profile"] else contextlib.nullcontext():
    start = time.perf_counter()
    for _ in range(40):
        step()
    taken = time.perf_counter() - start
print(taken / 40 * 1e6)
"""


def microseconds(command, program, *arguments):
    run = subprocess.run([*command, str(program), *arguments], check=True, capture_output=True,
                         text=True)
    return float(run.stdout)


def main():
    optrace = str(pathlib.Path(sys.argv[1]) / "optrace")
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "program.py"
        program.write_text(PROGRAM)
        traced = [optrace, "run", "--python", sys.executable, "-o", f"{folder}/report", "--trace",
                  f"{folder}/trace"]
        commands = {"alone": ([sys.executable],), "torch.profiler": ([sys.executable], "profile"),
                    "optrace run": (traced,), "optrace run --tensors": ([*traced, "--tensors"],)}
        times = {name: [] for name in commands}
        for _ in range(rounds):
            for name, (command, *arguments) in commands.items():
                times[name].append(microseconds(command, program, *arguments))
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, value in medians.items():
        print(f"{name:<22} {value:8.0f} us a step  {value / medians['alone']:5.2f} x alone  "
              f"{value / medians['optrace run']:5.2f} x optrace run")


if __name__ == "__main__":
    main()

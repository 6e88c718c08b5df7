"""`optrace check` on a trace of a million events, as a whole process."""
import pathlib
import subprocess
import sys
import tempfile
import time

PROGRAM = """
import torch
x = torch.ones(4)
for _ in range(40000):
    torch.add(x, x)
"""
RULES = ["never calls *slow_conv*", "calls aten::add", "ops <= 100000", "no failure"]
ROUNDS = 5


def main():
    command = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        script = pathlib.Path(folder, "program.py")
        script.write_text(PROGRAM)
        trace = pathlib.Path(folder, "t.trace")
        run = subprocess.run([command, "run", "--timeline", "--trace", trace, "-o",
                              pathlib.Path(folder, "tree"), script],
                             stderr=subprocess.PIPE, text=True, check=True)
        events = subprocess.run([command, "report", trace, "--all"], stdout=subprocess.PIPE,
                                text=True, check=True)
        del run, events
        arguments = [command, "check", trace, "--allow-unknown"]
        for rule in RULES:
            arguments += ["--expect", rule]
        times = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            subprocess.run(arguments, stdout=subprocess.DEVNULL, check=True)
            times.append(time.perf_counter() - start)
        size = trace.stat().st_size / 1e6
        print(f"trace of {size:.1f} MB, {len(RULES)} rules: {1000 * sorted(times)[ROUNDS // 2]:.0f} ms"
              f" (median of {ROUNDS})")


if __name__ == "__main__":
    main()

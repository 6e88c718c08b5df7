#!/usr/bin/env python3
"""compare.py OPTRACE: how long `optrace compare` takes for two traces of a million events each.

The traces are of two programs that do the same but for one op in their loop, once counted, as
`optrace run --trace` makes them, and once with --timeline, which keeps each event.
"""
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAM = """
import torch
x = torch.ones(8)
for _ in range(22_000):
    x.add(1).{op}()
    torch.nn.functional.softmax(x, 0)
"""
ROUNDS = 5


def seconds(optrace, first, second):
    begin = time.perf_counter()
    result = subprocess.run([optrace, "compare", first, second], capture_output=True, text=True)
    took = time.perf_counter() - begin
    assert result.returncode == 1, result.stderr
    return took


def main():
    (optrace,) = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        for options in ([], ["--timeline"]):
            traces = []
            for op in ("relu", "exp"):
                traces.append(pathlib.Path(folder) / f"{op}{len(options)}.trace")
                subprocess.run([optrace, "run", *options, "--trace", traces[-1], "-o", "/dev/null",
                                "-c", PROGRAM.format(op=op)], check=True)
            took = [seconds(optrace, *traces) for _ in range(ROUNDS)]
            sizes = " and ".join(f"{trace.stat().st_size / 1e6:.1f}" for trace in traces)
            print(f"{' '.join(options) or 'counted':12} {statistics.median(took):.2f} s (largest "
                  f"{max(took):.2f}) for traces of {sizes} MB")


if __name__ == "__main__":
    main()

"""traces.py OPTRACE: measures `optrace check` and `optrace compare` on traces of a million events.

The traces are of two programs that differ only in one op of their loop, once counted, as
`optrace run --trace` makes them, and once with --timeline, which keeps each event. The peer is
Python reading torch.profiler's trace of the first program (export_chrome_trace), without searching
it.
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
def work():
    for _ in range(22_000):
        x.add(1).{op}()
        torch.nn.functional.softmax(x, 0)
"""
PROFILED = """
with torch.profiler.profile() as profile:
    work()
profile.export_chrome_trace({path!r})
"""
READ = "import json, sys; print(len(json.load(open(sys.argv[1]))['traceEvents']))"
RULES = ["never calls *slow_conv*", "calls aten::softmax", "ops <= 1000000", "no failure"]
ROUNDS = 5


def seconds(command, status=0):
    took = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        took.append(time.perf_counter() - begin)
        assert result.returncode == status, result.stderr
    return statistics.median(took)


def main():
    optrace, = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        profiled = folder / "profiled.json"
        subprocess.run([sys.executable, "-c", PROGRAM.format(op="relu") +
                        PROFILED.format(path=str(profiled))], check=True, capture_output=True)
        events = int(subprocess.run([sys.executable, "-c", READ, profiled], check=True,
                                    capture_output=True, text=True).stdout)
        peer = seconds([sys.executable, "-c", READ, profiled])
        print(f"json.load of torch.profiler's trace: {peer:.2f} s for "
              f"{profiled.stat().st_size / 1e6:.0f} MB, {events} events")
        for options in ([], ["--timeline"]):
            traces = []
            for op in ("relu", "exp"):
                traces.append(folder / f"{op}{len(options)}.trace")
                subprocess.run([optrace, "run", *options, "--trace", traces[-1], "-o", "/dev/null",
                                "-c", PROGRAM.format(op=op) + "work()"], check=True)
            sizes = " and ".join(f"{trace.stat().st_size / 1e6:.1f}" for trace in traces)
            expected = [word for rule in RULES for word in ("--expect", rule)]
            checked = seconds([optrace, "check", traces[0], "--allow-unknown", *expected])
            compared = seconds([optrace, "compare", *traces], status=1)
            print(f"{' '.join(options) or 'counted'}, {sizes} MB: check {checked:.2f} s "
                  f"({checked / peer:.2f} of it), compare {compared:.2f} s ({compared / peer:.2f})")


if __name__ == "__main__":
    main()

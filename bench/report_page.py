"""report_page.py OPTRACE: measures `optrace report --format html` on a trace of 500,000 paths.

The paths are made by two functions that call each other in each order; each path ends with an op.
The peer is Python reading torch.profiler's trace of the same program, with its Python functions.
"""
import pathlib
import statistics
import subprocess
import sys
import tempfile

PROGRAM = """
import torch
x = torch.ones(8)
def a(depth):
    if depth == 0:
        x.add(1)
    else:
        a(depth - 1)
        b(depth - 1)
def b(depth):
    if depth == 0:
        x.add(1)
    else:
        a(depth - 1)
        b(depth - 1)
"""
WORK = "a(13)\n"
PROFILED = """
with torch.profiler.profile(with_stack=True) as profile:
    a(13)
profile.export_chrome_trace({path!r})
"""
# torch.profiler cuts names without regard to UTF-8.
READ = "import json, sys; json.load(open(sys.argv[1], errors='replace'))"
MEASURE = """
import resource, subprocess, sys, time
begin = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
took = time.perf_counter() - begin
print(took, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
ROUNDS = 5


def measure(command):
    """The median of seconds, and the most memory in MB."""
    results = []
    for _ in range(ROUNDS):
        said = subprocess.run([sys.executable, "-c", MEASURE, *command], check=True, text=True,
                              capture_output=True)
        results.append([float(number) for number in said.stdout.split()])
    times, sizes = zip(*results, strict=True)
    return statistics.median(times), max(sizes) / 1e3


def main():
    optrace, = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        profiled, trace, page = (folder / file for file in ("profiled.json", "a.trace", "a.html"))
        subprocess.run([sys.executable, "-c", PROGRAM + PROFILED.format(path=str(profiled))],
                       check=True, capture_output=True)
        subprocess.run([optrace, "run", "--python", sys.executable, "--trace", trace, "-o",
                        "/dev/null", "-c", PROGRAM + WORK], check=True)
        peer, peer_size = measure([sys.executable, "-c", READ, profiled])
        took, size = measure([optrace, "report", trace, "--format", "html", "-o", page])
        print(f"json.load of torch.profiler's trace, {profiled.stat().st_size / 1e6:.0f} MB: "
              f"{peer:.2f} s, {peer_size:.0f} MB of memory")
        print(f"--format html of a trace of {trace.stat().st_size / 1e6:.1f} MB: {took:.2f} s "
              f"({took / peer:.2f} of it), {size:.0f} MB of memory; the page has "
              f"{page.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()

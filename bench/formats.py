"""formats.py OPTRACE [TRACE...]: measures each format of `optrace report`.

Time and peak memory of whole processes, for a trace of the GPT program
(bench/programs/gpt_training.py) and for one of 500,000 paths. The peer is Python reading
torch.profiler's trace of the same program (export_chrome_trace), without looking into it. It has no
stacks: torch 2.6 writes some of these as bytes that are not UTF-8. Formats that need a timeline are
measured on traces that have one. TRACE: measures these traces instead.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
GPT = (HERE / "programs/gpt_training.py").read_text(encoding="utf-8")
# Functions with names of their own, so that none of their calls share a path.
MANY_PATHS = """
import torch
x = torch.ones(8, requires_grad=True)
for number in range({functions}):
    name = f"f{{number}}"
    exec(f"def {{name}}(): torch.nn.functional.softmax(x.add(1).relu(), 0)")
    globals()[name]()
"""
PROFILED = """
import torch
with torch.profiler.profile() as profile:
    exec(compile({program!r}, "program.py", "exec"), {{"__name__": "__main__"}})
profile.export_chrome_trace({path!r})
"""
READ = "import json, sys; json.load(open(sys.argv[1]))"
TIMELINE = ("perfetto",)
MANY = 10_300  # Functions, with some 49 paths each.


def measured(command):
    """Returns the seconds and the peak MB of a process."""
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, (command, errors)
    return time.perf_counter() - begin, usage.ru_maxrss / 1024


def formats(optrace):
    said = subprocess.run([optrace, "report", "none", "--format", "?"], capture_output=True,
                          text=True, check=False).stderr
    names = re.search(r"\{(.*)\}", said)[1].split(",")
    assert "json" in names, said
    return names


def measure(optrace, name, trace, timeline, peer):
    print(f"{name}, {trace.stat().st_size / 1e6:.1f} MB" +
          (f"; json.load of torch.profiler's {peer[2] / 1e6:.0f} MB: {peer[0]:.2f} s, "
           f"{peer[1]:.0f} MB" if peer else ""))
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "output"
        for form in formats(optrace):
            source = timeline if form in TIMELINE else trace
            if source is None:
                continue
            took, memory = min(measured([optrace, "report", source, "--format", form, "-o", output])
                               for _ in range(3))
            ratios = f" ({took / peer[0]:.2f} and {memory / peer[1]:.2f} of it)" if peer else ""
            print(f"  {form:<11}{took:6.2f} s {memory:6.0f} MB{ratios}, writes "
                  f"{output.stat().st_size / 1e6:.1f} MB", flush=True)


def measure_program(optrace, folder, name, program):
    profiled = folder / "profiled.json"
    subprocess.run([sys.executable, "-c", PROFILED.format(program=program, path=str(profiled))],
                   check=True, capture_output=True)
    peer = min(measured([sys.executable, "-c", READ, profiled]) for _ in range(3))
    counted, timeline = folder / "counted.trace", folder / "timeline.trace"
    for trace, options in ((counted, []), (timeline, ["--timeline"])):
        subprocess.run([optrace, "run", *options, "--memory", "2G", "--trace", trace,
                        "-o", os.devnull, "-c", program], check=True, stdout=subprocess.DEVNULL)
    measure(optrace, name, counted, timeline, (*peer, profiled.stat().st_size))


def main():
    optrace, *files = sys.argv[1:]
    for file in files:
        measure(optrace, file, pathlib.Path(file), None, None)
    if files:
        return
    with tempfile.TemporaryDirectory() as folder:
        for name, program in (("20 steps of a GPT", GPT),
                              ("500,000 paths", MANY_PATHS.format(functions=MANY))):
            measure_program(optrace, pathlib.Path(folder), name, program)


if __name__ == "__main__":
    main()

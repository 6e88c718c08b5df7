"""How much slower a 1 us `add` gets while optrace's probes record it, beside torch.profiler.

    add_overhead.py BUILD_FOLDER

Everything is measured in this one process: untraced, torch.profiler without and with stacks, all
jump probes placed, recording, and after removal. Prints medians and their ratio to untraced.
"""
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch

CALLS = 2_000
REPEATS = 40


def per_call(a, b):
    """Nanoseconds for one torch.add, over CALLS of them."""
    begin = time.perf_counter_ns()
    for _ in range(CALLS):
        torch.add(a, b)
    return (time.perf_counter_ns() - begin) / CALLS


def median_of(a, b, before=lambda: None, after=lambda: None):
    times = []
    for _ in range(REPEATS):
        before()
        times.append(per_call(a, b))
        after()
    return statistics.median(times)


def profiled(a, b, with_stack):
    times = []
    for _ in range(REPEATS // 4):
        with torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], with_stack=with_stack
        ):
            times.append(per_call(a, b))
    return statistics.median(times)


def plans(build, scratch):
    folder = os.path.join(os.path.dirname(torch.__file__), "lib")
    libraries = ("libtorch_cpu.so", "libtorch_python.so", "libc10.so")
    modules = [os.path.join(folder, name) for name in libraries]
    output = subprocess.run([os.path.join(build, "session_plans"), scratch, *modules],
                            check=True, capture_output=True, text=True).stdout
    return output.split("\n")[:-1]


class Agent:
    def __init__(self, build):
        self._library = ctypes.CDLL(os.path.join(build, "lib/optrace/liboptrace_agent.so"))

    def __getattr__(self, name):
        function = getattr(self._library, "optrace_agent_" + name)

        def call(*arguments):
            result = function(*arguments)
            if result < 0:
                raise OSError(-result, name + ": " + os.strerror(-result))
            return result

        return call


def timed_placing(agent, build, scratch, use_jumps):
    """How many probes were placed, and in how many seconds."""
    begin = time.perf_counter()
    # What optrace found beside torch's libraries is in the interpreter's; it is placed too.
    placed = sum(agent.place(os.fsencode(path), int(use_jumps)) for path in plans(build, scratch))
    return placed, time.perf_counter() - begin


def main():
    build = os.path.abspath(sys.argv[1])
    torch.set_num_threads(1)
    a, b = torch.ones(4), torch.ones(4)
    per_call(a, b)
    untraced = median_of(a, b)
    rows = [("untraced", untraced)]
    rows.append(("torch.profiler", profiled(a, b, False)))
    rows.append(("torch.profiler with_stack=True", profiled(a, b, True)))
    agent = Agent(build)
    with tempfile.TemporaryDirectory() as scratch, open(os.devnull, "wb") as nowhere:
        jumps = timed_placing(agent, build, scratch, True)
        rows.append(("probes placed, not recording", median_of(a, b)))
        rows.append(("probes recording", median_of(
            a, b, agent.start, lambda: (agent.stop(), agent.write(nowhere.fileno())))))
        begin = time.perf_counter()
        agent.remove()
        removing = time.perf_counter() - begin
        traps = timed_placing(agent, build, scratch, False)
        agent.remove()
    rows.append(("after removal", median_of(a, b)))
    print(f"torch {torch.__version__}: torch.add of 4 floats, median of {REPEATS} x {CALLS} calls")
    for name, nanoseconds in rows:
        print(f"  {name:<32} {nanoseconds:8.0f} ns  {nanoseconds / untraced:5.2f} x")
    for kind, (placed, seconds) in (("jump", jumps), ("int3", traps)):
        print(f"  {placed} {kind} probes placed in {seconds:.2f} s (planning included)")
    print(f"  removed in {removing:.2f} s")


main()

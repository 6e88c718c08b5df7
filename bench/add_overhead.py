"""Measures how much slower a 1 us `add` is while optrace's probes record it, compared with
torch.profiler.

    add_overhead.py BUILD_FOLDER

Everything is measured in this one process, in turn: untraced, torch.profiler without and with
stacks, all jump probes placed, recording, and after removal. Prints medians, and the medians of the
ratios to untraced in the same round.
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
REPEATS = 5  # Per round.
ROUNDS = 8
RECORDING_BYTES = 256 << 20  # Only what is written to takes disk space.


def per_call(a, b):
    """Nanoseconds per torch.add, measured over CALLS of them."""
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
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], with_stack=with_stack
    ):
        return per_call(a, b)


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


def timed_placing(agent, plan_paths, use_jumps):
    """The number of probes that were placed, and the seconds that it took."""
    begin = time.perf_counter()
    placed = sum(agent.place(os.fsencode(path), int(use_jumps)) for path in plan_paths)
    return placed, time.perf_counter() - begin


def begin(agent, recording):
    """Starts a recording into the file with this descriptor."""
    agent.share(recording, ctypes.c_uint64(RECORDING_BYTES))
    agent.start()


def measure_round(agent, a, b, plan_paths, recording):
    """Nanoseconds per call for each way, in turn: the machine's speed changes slowly."""
    times = {"untraced": median_of(a, b)}
    times["torch.profiler"] = profiled(a, b, False)
    times["torch.profiler with_stack=True"] = profiled(a, b, True)
    jumps = timed_placing(agent, plan_paths, True)
    times["probes placed, not recording"] = median_of(a, b)
    times["probes recording"] = median_of(
        a, b, lambda: begin(agent, recording), agent.stop)
    agent.remove()
    times["after removal"] = median_of(a, b)
    traps = timed_placing(agent, plan_paths, False)
    agent.remove()
    return times, jumps, traps


def main():
    build = os.path.abspath(sys.argv[1])
    torch.set_num_threads(1)
    a, b = torch.ones(4), torch.ones(4)
    per_call(a, b)
    agent = Agent(build)
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile() as recording:
        before = time.perf_counter()
        # Also includes the plan for the interpreter, which optrace found in addition to torch's
        # libraries.
        plan_paths = plans(build, scratch)
        planning = time.perf_counter() - before
        rounds = [measure_round(agent, a, b, plan_paths, recording.fileno())
                  for _ in range(ROUNDS)]
    print(f"torch {torch.__version__}: torch.add of 4 floats, {ROUNDS} rounds, medians")
    for name in rounds[0][0]:
        nanoseconds = statistics.median(times[name] for times, _, _ in rounds)
        ratio = statistics.median(times[name] / times["untraced"] for times, _, _ in rounds)
        print(f"  {name:<32} {nanoseconds:8.0f} ns  {ratio:5.2f} x")
    print(f"  plans from the cache in {planning:.2f} s")
    for kind, place in (("jump", 1), ("int3", 2)):
        placed, seconds = rounds[0][place]
        print(f"  {placed} {kind} probes placed for the first time in {seconds:.2f} s")


main()

"""Runs one workload again and again as the program at the other end of a socket says.

    run_workload.py DESCRIPTOR WORKLOAD AGENT STEPPER

It says which modules may be probed, then obeys, one line each, answered by `ok` (and a result) or
by what was wrong: `place JUMPS PLAN`, `count 0` (how many jumps and traps are placed), `record
PYTHON FILE`, `step PYTHON FILE`, `remove 0`, `quit`. JUMPS and PYTHON are 0 or 1; with PYTHON the
agent's profile function is on, while stepping too, so that the interpreter takes the same way.
What a process steps and records has the same addresses, and so the same collisions in the caches
of CPython. It steps first, while there is no agent in it unless PYTHON asks for one.
"""
import ctypes
import gc
import os
import sys

import torch

import workloads

WARM_UPS = 30  # Python 3.11 and later rewrite their bytecode over the first runs.
MOST_STEPS = 40_000_000


def measured(begin, work, end):
    """The same for probes and for steps, so that what lies around the work is the same too."""
    begin()
    work()
    end()


def modules():
    """The files that optrace probes: torch's own libraries and what holds the interpreter."""
    torch_folder = os.path.dirname(os.path.realpath(torch.__file__))
    paths = []
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            name = os.path.basename(path)
            path = "/" + path
            if path in paths or ".so" not in name and path != os.path.realpath(sys.executable):
                continue
            if path.startswith(torch_folder + "/") or name.startswith(("libpython", "python")):
                paths.append(path)
    return paths


class Agent:
    def __init__(self, path):
        self._library = ctypes.PyDLL(path)

    def _call(self, name, *arguments):
        result = getattr(self._library, "optrace_agent_" + name)(*arguments)
        if result < 0:
            raise OSError(-result, "optrace_agent_%s: %s" % (name, os.strerror(-result)))
        return result

    def place(self, jumps, plan):
        self._call("place", os.fsencode(plan), int(jumps))

    def python(self, on):
        self._call("python", int(on))

    def count(self):
        counters = (ctypes.c_uint64 * 8)()  # struct optrace_agent_counters: jumps, traps, ...
        self._call("read_counters", counters)
        return "%d %d" % tuple(counters[:2])

    def remove(self):
        self._call("remove")

    def record(self, path, work):
        measured(self._library.optrace_agent_start, work, self._library.optrace_agent_stop)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._call("write", descriptor)
        os.close(descriptor)


class Stepper:
    def __init__(self, path):
        self._library = ctypes.PyDLL(path)
        self._library.single_step_prepare.restype = ctypes.c_char_p
        self._library.single_step_prepare.argtypes = [ctypes.c_uint64]
        self._library.single_step_write.restype = ctypes.c_char_p
        self._library.single_step_begin.restype = None
        self._library.single_step_end.restype = ctypes.c_uint64

    def step(self, path, work):
        failure = self._library.single_step_prepare(MOST_STEPS)
        if failure is None:
            measured(self._library.single_step_begin, work, self._library.single_step_end)
            failure = self._library.single_step_write(os.fsencode(path))
        if failure is not None:
            raise OSError(failure.decode())


def main():
    descriptor, name, agent_path, stepper_path = sys.argv[1:]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    work = workloads.WORKLOADS[name]()
    for _ in range(WARM_UPS):
        work()
    gc.collect()
    gc.disable()
    libraries = {}

    def library(kind, path):
        if kind not in libraries:
            libraries[kind] = kind(path)
        return libraries[kind]

    with open(int(descriptor), "r+b", buffering=0) as channel:
        channel.write(("\t".join(modules()) + "\n").encode())
        while True:
            command, _, rest = channel.readline().decode().rstrip("\n").partition(" ")
            flag, _, path = rest.partition(" ")
            answer = "ok"
            try:
                if command == "place":
                    library(Agent, agent_path).place(flag == "1", path)
                elif command == "count":
                    answer = "ok " + library(Agent, agent_path).count()
                elif command == "remove":
                    library(Agent, agent_path).remove()
                elif command in ("record", "step"):
                    if flag == "1":
                        library(Agent, agent_path).python(True)
                    if command == "record":
                        library(Agent, agent_path).record(path, work)
                    else:
                        library(Stepper, stepper_path).step(path, work)
                    if flag == "1":
                        library(Agent, agent_path).python(False)
                else:
                    break
            except OSError as error:
                answer = str(error)
            channel.write((answer + "\n").encode())
    os._exit(0)  # Probes may still be placed: nothing has to run after this.


main()

"""Runs workloads on the orders of the program at the other end of a socket.

    run_workload.py DESCRIPTOR AGENT STEPPER MOST_STEPS

It first sends the modules that may be probed. Then it reads orders, one JSON object per line, and
answers each with a line, `ok` (and a result) or an error:

    {"order": "step", "workload": name, "python": bool, "file": path}     writes a truth
    {"order": "patch", "jumps": bool}                                     kind of probes of "place"
    {"order": "place", "file": plan}
    {"order": "record", "workload": name, "python": bool, "file": path}   shares the file
    {"order": "count"}                                                    "ok JUMPS TRAPS": placed
    {"order": "remove"}

With "python" the agent's profile function is on, while stepping too, so that the interpreter takes
the same code path. Stepping and recording in one process keeps addresses the same, and with them
the collisions in CPython's caches. Steps are ordered first, when the agent is not loaded yet unless
"python" requires it. A workload is one of workloads.py, or `op:NAME` (op_workloads.py).
"""
import ctypes
import gc
import json
import os
import random
import sys
import time

import torch

import op_workloads
import workloads

# Python 3.11 and later specialize their bytecode during the first runs. A slow op gets fewer runs.
WARM_UPS = 30
LEAST_WARM_UPS = 10
WARM_UP_SECONDS = 2

REGION_SIZE = 256 << 20  # For a recording, in bytes; only what is written to takes memory.


def measured(begin, work, end):
    """Used for probes and for steps, so that the code around the work is the same too."""
    begin()
    work()
    end()


def modules():
    """Returns the files that optrace probes: torch's own libraries and the interpreter's file."""
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
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        self._call("share", descriptor, ctypes.c_uint64(REGION_SIZE))
        os.close(descriptor)
        self._call("every_python_call", 1)
        measured(self._library.optrace_agent_start, work, self._library.optrace_agent_stop)


class Stepper:
    def __init__(self, path, most_steps):
        self._library = ctypes.PyDLL(path)
        self._library.single_step_prepare.restype = ctypes.c_char_p
        self._library.single_step_prepare.argtypes = [ctypes.c_uint64, ctypes.c_int]
        self._library.single_step_write.restype = ctypes.c_char_p
        self._library.single_step_begin.restype = None
        self._library.single_step_end.restype = ctypes.c_uint64
        self._most_steps = most_steps

    def step(self, path, work):
        failure = self._library.single_step_prepare(self._most_steps, False)
        if failure is None:
            measured(self._library.single_step_begin, work, self._library.single_step_end)
            failure = self._library.single_step_write(os.fsencode(path))
        if failure is not None:
            raise OSError(failure.decode())


class Workloads:
    """Functions that make runs, by name. Each is created and warmed up at its first use."""

    def __init__(self):
        self._ops = op_workloads.OpWorkloads()
        self._makers = {}

    def run(self, name):
        """Returns the work to measure. It has just run once, so that the caches are the same."""
        if name not in self._makers:
            self._makers[name] = self._made(name)
        self._once(name)
        return self._seeded(name)

    def _seeded(self, name):
        run = self._makers[name]()
        torch.manual_seed(0)
        random.seed(0)
        return run

    def _once(self, name):
        self._seeded(name)()

    def _made(self, name):
        torch.manual_seed(0)
        if name.startswith(op_workloads.PREFIX):
            maker = self._ops.prepare(name)
        else:
            work = workloads.WORKLOADS[name]()

            def maker():
                return work
        self._makers[name] = maker
        end = time.monotonic() + WARM_UP_SECONDS
        for number in range(WARM_UPS):
            if number >= LEAST_WARM_UPS and time.monotonic() > end:
                break
            self._once(name)
        gc.collect()
        return maker


class Session:
    def __init__(self, agent_path, stepper_path, most_steps):
        self._agent_path = agent_path
        self._stepper_path = stepper_path
        self._most_steps = most_steps
        self._loaded_agent = self._loaded_stepper = None
        self._jumps = True
        self._workloads = Workloads()

    @property
    def _agent(self):
        if self._loaded_agent is None:
            self._loaded_agent = Agent(self._agent_path)
        return self._loaded_agent

    @property
    def _stepper(self):
        if self._loaded_stepper is None:
            self._loaded_stepper = Stepper(self._stepper_path, self._most_steps)
        return self._loaded_stepper

    def patch(self, order):
        self._jumps = order["jumps"]

    def place(self, order):
        self._agent.place(self._jumps, order["file"])

    def count(self, _order):
        return self._agent.count()

    def remove(self, _order):
        self._agent.remove()

    def step(self, order):
        self._run(order, lambda work: self._stepper.step(order["file"], work))

    def record(self, order):
        self._run(order, lambda work: self._agent.record(order["file"], work))

    def _run(self, order, measure):
        work = self._workloads.run(order["workload"])
        if order["python"]:
            self._agent.python(True)
        try:
            measure(work)
        finally:
            if order["python"]:
                self._agent.python(False)


def main():
    descriptor, agent_path, stepper_path, most_steps = sys.argv[1:]
    torch.set_num_threads(1)
    gc.disable()
    session = Session(agent_path, stepper_path, int(most_steps))
    orders = {"step": session.step, "patch": session.patch, "place": session.place,
              "record": session.record, "count": session.count, "remove": session.remove}
    with open(int(descriptor), "r+b", buffering=0) as channel:
        channel.write(("\t".join(modules()) + "\n").encode())
        while line := channel.readline():
            order = json.loads(line)
            try:
                answer = " ".join(filter(None, ["ok", orders[order["order"]](order)]))
            except Exception as error:  # Includes the op's own errors.
                answer = "%s: %s" % (type(error).__name__, str(error).partition("\n")[0])
            channel.write((answer + "\n").encode())
    os._exit(0)  # Probes may still be placed: no code must run after this.


main()

"""The tracer in a process that was already running, on a thread provided by `attach.py`.

The command starts and stops the tracing. When the command exits, tracing ends immediately. No
probe, descriptor or thread may remain.
"""
import os
import sys

from .agent import Agent
from .compiled.compilations import Compilations
from .connection import Connection
from .description import of_torch, shortfalls
from .op_records import dispatch_tables
from .problem import FAILED, Problem, first_line
from .protocol import Key, Message, Order


def serve(socket):
    """Serves the command. `socket` is connected to it and remains owned by the caller."""
    connection = Connection(socket)
    try:
        _Tracing(connection, socket.fileno()).run()
    except Problem as problem:
        connection.send(Message.PROBLEM, {Key.WHAT: problem.what, Key.REMEDY: problem.remedy})
    except OSError:
        pass  # The command has exited.
    except Exception as error:
        connection.send(Message.PROBLEM, {
            Key.WHAT: "the tracer failed in the process (%s)" % first_line(error),
            Key.REMEDY: "Report it with this line."})


class _Tracing:
    def __init__(self, connection, descriptor):
        self._connection = connection
        self._descriptor = descriptor
        self._torch = sys.modules.get("torch")

    def run(self):
        spec = getattr(self._torch, "__spec__", None)
        if spec is None or getattr(spec, "_initializing", False):
            raise Problem(FAILED, "the process has not finished importing torch",
                          "Attach to it again after the import.")
        connection = self._connection
        connection.send(Message.PROGRAM,
                        {Key.ARGUMENTS: list(getattr(sys, "orig_argv", sys.argv))})
        connection.send(Message.IMPORTED, {Key.META: of_torch(self._torch)})
        order, descriptors = connection.receive_with_region()
        # Files of the command that this process can't access are passed as open descriptors.
        files = {name: "/proc/self/fd/%d" % descriptor
                 for name, descriptor in zip(order.get(Key.FILES, ()), descriptors[1:])}
        try:
            agent = Agent(files.get(order[Key.AGENT], order[Key.AGENT]), order[Key.USE_JUMPS],
                          keeps_gil=False)
            agent.enter(self._descriptor)
            try:
                self._trace(agent, order, files, descriptors[0])
            finally:
                agent.leave()
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        connection.send(Message.LEFT)

    def _trace(self, agent, order, files, region):
        connection = self._connection
        agent.limit_returns(order[Key.RETURNS_PER_SITE])
        for plan in order[Key.PLANS]:
            agent.place(plan, at_once=False, file=files.get(plan))
            # A thread that makes no system call prevents the int3s of all plans from becoming
            # jumps; waiting for it once is enough.
            agent.use_jumps = agent.use_jumps and agent.counters().jumps != 0
        warnings = (agent.record_ops(order[Key.OP_AGENT], order[Key.TENSORS])
                    if order[Key.OP_AGENT] else [])
        if order[Key.ACTIVITY_AGENT]:
            warnings += agent.record_device_activity(order[Key.ACTIVITY_AGENT], self._torch)
        if order[Key.CUDA_CALLS_AGENT]:
            warnings += agent.record_cuda_calls(order[Key.CUDA_CALLS_AGENT])
        agent.share(region)
        connection.send(Message.RECORDING, {Key.WARNINGS: warnings})
        connection.receive(Order.START)
        hooked = agent.start_on_main_thread(order[Key.TIMEOUT])
        compilations = Compilations()
        compilations.start()
        try:
            connection.send(Message.STARTED,
                            {Key.PYTHON_FRAMES: hooked,
                             Key.WARNINGS: shortfalls(agent.counters(), hooked)})
            connection.receive(Order.STOP)
        finally:
            agent.look_for_missing_python()
            agent.stop()
            compilations.stop()
        connection.send(Message.STOPPED)
        order = connection.receive(Order.TABLES)
        connection.send(Message.TABLES, {Key.META: {
            **dispatch_tables(self._torch, order[Key.OPS]), **compilations.meta()}})

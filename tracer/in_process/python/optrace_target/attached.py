"""The tracer in a process that was already running, on a thread provided by `attach.py`.

The command starts and stops the tracing. When the command exits, tracing ends immediately. No
probe, descriptor or thread may remain.
"""
import os
import sys

from .agent import Agent
from .connection import Connection
from .description import of_torch, shortfalls
from .op_records import dispatch_tables
from .problem import FAILED, Problem, first_line


def serve(socket):
    """Serves the command. `socket` is connected to it and remains owned by the caller."""
    connection = Connection(socket)
    try:
        _Tracing(connection, socket.fileno()).run()
    except Problem as problem:
        connection.send("problem", what=problem.what, remedy=problem.remedy)
    except OSError:
        pass  # The command has exited.
    except Exception as error:
        connection.send("problem", what="the tracer failed in the process (%s)" % first_line(error),
                        remedy="Report it with this line.")


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
        connection.send("program", arguments=list(getattr(sys, "orig_argv", sys.argv)))
        connection.send("imported", meta=of_torch(self._torch))
        order, descriptors = connection.receive_with_region()
        # Files of the command that this process can't access are passed as open descriptors.
        files = {name: "/proc/self/fd/%d" % descriptor
                 for name, descriptor in zip(order.get("files", ()), descriptors[1:])}
        try:
            agent = Agent(files.get(order["agent"], order["agent"]), order["use_jumps"],
                          keeps_gil=False)
            agent.enter(self._descriptor)
            try:
                self._trace(agent, order, files, descriptors[0])
            finally:
                agent.leave()
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        connection.send("left")

    def _trace(self, agent, order, files, region):
        connection = self._connection
        for plan in order["plans"]:
            agent.place(plan, at_once=False, file=files.get(plan))
            # A thread that makes no system call prevents the int3s of all plans from becoming
            # jumps; waiting for it once is enough.
            agent.use_jumps = agent.use_jumps and agent.counters().jumps != 0
        warnings = agent.record_ops(order["op_agent"]) if order["op_agent"] else []
        if order["activity_agent"]:
            warnings += agent.record_device_activity(order["activity_agent"], self._torch)
        if order["cuda_calls_agent"]:
            warnings += agent.record_cuda_calls(order["cuda_calls_agent"])
        agent.share(region)
        connection.send("recording", warnings=warnings)
        connection.receive()
        hooked = agent.start_on_main_thread(order["patience"])
        try:
            connection.send("started", python_frames=hooked,
                            warnings=shortfalls(agent.counters(), hooked))
            connection.receive()
        finally:
            agent.look_for_missing_python()
            agent.stop()
        connection.send("stopped")
        order = connection.receive()
        connection.send("tables", meta=dispatch_tables(self._torch, order["ops"]))

"""The tracer in a program that `optrace run` started: from the import of torch to the end.

Nothing in here may raise, print, or outlast the call that came in, apart from the recording: no
descriptor stays open, and signals wait until the program's own code runs again.
"""
import atexit
import os
import sys

from .agent import Agent
from .connection import Connection, Quiet
from .description import interpreter_file, of_torch, shortfalls
from .op_records import dispatch_tables
from .problem import Problem, first_line

_PATIENCE = 120  # Seconds for the command's answers; planning for a new wheel takes two.
_END_PATIENCE = 20  # At the end, when it has to empty what was recorded last.


def begin(address, children, torch_folder):
    """The import of torch begins, and the command can plan while it lasts."""
    program = Program(address, children)
    with Quiet():
        program.connect(torch_folder)
    return program


class Program:
    """One traced process. A process that it forks is another one."""

    def __init__(self, address, children):
        self.process = os.getpid()
        self._address = address
        self._children = children
        self._connection = None
        self._agent = None
        self._recording = False

    def connect(self, torch_folder):
        try:
            self._connection = Connection.to(self._address, _PATIENCE)
            self._connection.send(
                "program", process=self.process, parent=os.getppid(), forked=False,
                rank=os.environ.get("RANK"), implementation=sys.implementation.name,
                version=list(sys.version_info[:3]), executable=sys.executable,
                torch=torch_folder, modules=[interpreter_file()],
                cuda=os.path.exists("/dev/nvidiactl"))
        except Exception:  # The command is gone, or never was.
            self._disconnect()

    def give_up(self):
        with Quiet():
            self._disconnect()

    def start(self, torch, late):
        """`late`: torch may be in use already, by other threads too."""
        if self._connection is not None:
            with Quiet():
                self._try(self._start, torch, late)

    def _start(self, torch, late):
        connection = self._connection
        connection.send("imported", meta=of_torch(torch))
        order, descriptors = connection.receive_with_region()
        try:
            self._place(connection, torch, late, order, descriptors[0])
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _place(self, connection, torch, late, order, region):
        self._agent = Agent(order["agent"], order["use_jumps"])
        # A jump takes more than one instruction's place: no other thread may be about to enter the
        # function. Nobody uses torch yet, and what of the interpreter is probed runs under its lock,
        # which is held while probes are placed.
        for plan in order["plans"]:
            self._agent.place(plan, not late)
        warnings = self._agent.record_ops(order["op_agent"]) if order["op_agent"] else []
        if order["activity_agent"]:
            warnings += self._agent.record_device_activity(order["activity_agent"], torch)
        if order["cuda_calls_agent"]:
            warnings += self._agent.record_cuda_calls(order["cuda_calls_agent"])
        # What torch registered is called after this: how it takes itself apart is no part of the
        # program.
        atexit.register(self.end)
        if self._children:
            os.register_at_fork(after_in_child=self._in_child)
        self._record(connection, region, warnings)

    def _record(self, connection, region, warnings):
        self._agent.share(region)
        hooked = self._agent.python(True)
        connection.send("recording", python_frames=hooked,
                        warnings=warnings + shortfalls(self._agent.counters(), hooked))
        if connection.receive()["order"] == "start":
            self._disconnect()
            self._recording = True
            self._agent.check("recording", self._agent.start())
            self._agent.record_live_functions()

    def _in_child(self):
        """A fork: the probes are there, but the memory that is shared is the parent's."""
        recorded = self._recording
        self._disconnect()
        self._recording = False
        parent, self.process = self.process, os.getpid()
        if recorded:
            with Quiet():
                self._try(self._start_child, parent)

    def _start_child(self, parent):
        self._connection = Connection.to(self._address, _PATIENCE)
        self._connection.send("program", process=self.process, parent=parent, forked=True,
                              rank=os.environ.get("RANK"))
        _, descriptors = self._connection.receive_with_region()
        try:
            self._agent.stop()  # What records ops does not know yet that it is in another process.
            self._record(self._connection, descriptors[0], [])
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _try(self, step, *arguments):
        try:
            step(*arguments)
        except Problem as problem:
            self._complain(problem.what, problem.remedy)
        except Exception as error:
            self._complain("the tracer failed in the program (%s)" % first_line(error),
                           "Report it with this line.")
        self._disconnect()

    def _complain(self, what, remedy):
        try:
            self._connection.send("problem", what=what, remedy=remedy)
        except Exception:  # Then the command sees that this process went away.
            pass

    def _disconnect(self):
        if self._connection is not None:
            connection, self._connection = self._connection, None
            try:
                connection.close()
            except OSError:
                pass

    def end(self):
        """The program is over, orderly; after a kill the command does without."""
        if not self._recording or self.process != os.getpid():
            return
        with Quiet():
            self._recording = False
            try:
                self._agent.python(False)
                self._agent.stop()
                connection = Connection.to(self._address, _END_PATIENCE)
            except Exception:
                return
            try:
                connection.send("ended", process=self.process)
                order = connection.receive()
                connection.send("tables", meta=dispatch_tables(sys.modules["torch"], order["ops"]))
            except Exception:
                pass
            finally:
                connection.close()


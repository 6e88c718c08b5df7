"""The tracer in a program started by `optrace run`, from the import of torch to the end.

Nothing here may raise, print, or leave anything behind when it returns, except the recording: no
descriptor stays open, and signals are blocked until the program's own code runs again.
"""
import atexit
import os
import sys

from .agent import Agent
from .connection import Connection, Quiet
from .description import interpreter_file, of_torch, shortfalls
from .op_records import dispatch_tables
from .problem import Problem, first_line
from .protocol import Key, Message, Order

_PATIENCE = 120  # In seconds, for the command's answers; planning for a new wheel takes two.
_END_PATIENCE = 20  # At the end, when the command has to empty the last part of the recording.


def begin(address, children, torch_folder):
    """Called when the import of torch begins, so that the command can plan during the import."""
    program = Program(address, children)
    with Quiet():
        program.connect(torch_folder)
    return program


class Program:
    """One traced process. A forked process is another one."""

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
            self._connection.send(Message.PROGRAM, {
                Key.PARENT: os.getppid(), Key.FORKED: False, Key.RANK: os.environ.get("RANK"),
                Key.TORCH: torch_folder, Key.MODULES: [interpreter_file()],
                Key.CUDA: os.path.exists("/dev/nvidiactl")})
        except Exception:  # The command has exited or never existed.
            self._disconnect()

    def give_up(self):
        with Quiet():
            self._disconnect()

    def start(self, torch, late):
        """Starts tracing. `late`: torch may already be in use, also on other threads."""
        if self._connection is not None:
            with Quiet():
                self._try(self._start, torch, late)

    def _start(self, torch, late):
        connection = self._connection
        connection.send(Message.IMPORTED, {Key.META: of_torch(torch)})
        order, descriptors = connection.receive_with_region()
        try:
            self._place(connection, torch, late, order, descriptors[0])
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _place(self, connection, torch, late, order, region):
        self._agent = Agent(order[Key.AGENT], order[Key.USE_JUMPS])
        # A jump replaces more than one instruction, so no other thread may be about to enter the
        # function. No thread uses torch yet, and the interpreter's probed functions run with the
        # GIL, which is held while probes are placed.
        for plan in order[Key.PLANS]:
            self._agent.place(plan, not late)
        warnings = self._agent.record_ops(order[Key.OP_AGENT]) if order[Key.OP_AGENT] else []
        if order[Key.ACTIVITY_AGENT]:
            warnings += self._agent.record_device_activity(order[Key.ACTIVITY_AGENT], torch)
        if order[Key.CUDA_CALLS_AGENT]:
            warnings += self._agent.record_cuda_calls(order[Key.CUDA_CALLS_AGENT])
        # Functions that torch registered run after this one; they are not part of the program.
        atexit.register(self.end)
        if self._children:
            os.register_at_fork(after_in_child=self._in_child)
        self._record(connection, region, warnings)

    def _record(self, connection, region, warnings):
        self._agent.share(region)
        hooked = self._agent.python(True)
        connection.send(Message.RECORDING, {
            Key.PYTHON_FRAMES: hooked,
            Key.WARNINGS: warnings + shortfalls(self._agent.counters(), hooked)})
        connection.receive(Order.START)
        self._disconnect()
        self._recording = True
        self._agent.check("recording", self._agent.start())
        self._agent.record_live_functions()

    def _in_child(self):
        """Called in a forked child, which inherits the probes but shares memory only with its
        parent.
        """
        recorded = self._recording
        self._disconnect()
        self._recording = False
        parent, self.process = self.process, os.getpid()
        if recorded:
            with Quiet():
                self._try(self._start_child, parent)

    def _start_child(self, parent):
        self._connection = Connection.to(self._address, _PATIENCE)
        self._connection.send(Message.PROGRAM, {Key.PARENT: parent, Key.FORKED: True,
                                                Key.RANK: os.environ.get("RANK")})
        _, descriptors = self._connection.receive_with_region()
        try:
            self._agent.stop()  # The op-record agent does not detect the fork.
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
            self._connection.send(Message.PROBLEM, {Key.WHAT: what, Key.REMEDY: remedy})
        except Exception:  # The command then notices that this process has ended.
            pass

    def _disconnect(self):
        if self._connection is not None:
            connection, self._connection = self._connection, None
            try:
                connection.close()
            except OSError:
                pass

    def end(self):
        """Called at an orderly end of the program; after a kill, this data is missing."""
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
                connection.send(Message.ENDED)
                ops = connection.receive(Order.TABLES)[Key.OPS]
                connection.send(Message.TABLES,
                                {Key.META: dispatch_tables(sys.modules["torch"], ops)})
            except Exception:
                pass
            finally:
                connection.close()


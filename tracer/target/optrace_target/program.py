"""The tracer in a program that `optrace run` started: from the import of torch to the end.

Nothing in here may raise, print, or outlast the call that came in, apart from the recording: no
descriptor stays open, and signals wait until the program's own code runs again.
"""
import _signal
import _socket
import atexit
import fcntl
import gc
import json
import os
import sys

from .agent import Agent
from .description import interpreter_file, of_torch, shortfalls
from .op_records import dispatch_tables
from .problem import Problem, first_line

_PATIENCE = 120  # Seconds for the command's answers; planning for a new wheel takes two.
_END_PATIENCE = 20  # At the end, when it has to empty what was recorded last.
_HIGH_DESCRIPTOR = 256  # Programs know the numbers of their own files.
# A fault's own signals are never blocked: the system ends a process that can't take one.
_FAULTS = {_signal.SIGSEGV, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGILL, _signal.SIGABRT,
           _signal.SIGTRAP, _signal.SIGSYS}


def begin(address, children, torch_folder):
    """The import of torch begins, and the command can plan while it lasts."""
    program = Program(address, children)
    with _Quiet():
        program.connect(torch_folder)
    return program


class _Quiet:
    """What runs inside is none of the program's: no signal handler, no collection of its."""

    def __enter__(self):
        # Handlers that are due already run here, in front of it.
        self._blocked = _signal.pthread_sigmask(_signal.SIG_BLOCK,
                                                _signal.valid_signals() - _FAULTS)
        self._collects = gc.isenabled()
        gc.disable()

    def __exit__(self, *ignored):
        if self._collects:
            gc.enable()
        _signal.pthread_sigmask(_signal.SIG_SETMASK, self._blocked)


class _Connection:
    """One JSON object a line, both ways, over the command's socket; raises OSError."""

    def __init__(self, address, patience):
        self._received = b""
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            self._socket = _high(self._socket)
            self._socket.settimeout(patience)
            self._socket.connect(address)
        except BaseException:
            self._socket.close()
            raise

    def send(self, message, descriptor=None, **values):
        values["message"] = message
        data = (json.dumps(values) + "\n").encode("ascii")
        if descriptor is not None:
            sent = self._socket.sendmsg(
                [data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS,
                          descriptor.to_bytes(4, sys.byteorder))], _socket.MSG_NOSIGNAL)
            data = data[sent:]
        while data:
            data = data[self._socket.send(data, _socket.MSG_NOSIGNAL):]

    def receive(self):
        while b"\n" not in self._received:
            data = self._socket.recv(1 << 16)
            if not data:
                raise OSError("the command is gone")
            self._received += data
        line, self._received = self._received.split(b"\n", 1)
        return json.loads(line)

    def close(self):
        self._socket.close()


def _high(socket):
    try:
        number = fcntl.fcntl(socket.fileno(), fcntl.F_DUPFD_CLOEXEC, _HIGH_DESCRIPTOR)
    except OSError:  # Fewer are allowed here.
        return socket
    socket.close()
    return _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, number)


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
            self._connection = _Connection(self._address, _PATIENCE)
            self._connection.send(
                "program", process=self.process, parent=os.getppid(), forked=False,
                rank=os.environ.get("RANK"), implementation=sys.implementation.name,
                version=list(sys.version_info[:3]), executable=sys.executable,
                torch=torch_folder, modules=[interpreter_file()],
                cuda=os.path.exists("/dev/nvidiactl"))
        except Exception:  # The command is gone, or never was.
            self._disconnect()

    def give_up(self):
        with _Quiet():
            self._disconnect()

    def start(self, torch, late):
        """`late`: torch may be in use already, by other threads too."""
        if self._connection is not None:
            with _Quiet():
                self._try(self._start, torch, late)

    def _start(self, torch, late):
        connection = self._connection
        connection.send("imported", meta=of_torch(torch))
        order = connection.receive()
        if order["order"] != "record":
            return
        self._agent = Agent(order["agent"], order["use_jumps"])
        # A jump takes more than one instruction's place: no other thread may be about to enter the
        # function. Nobody uses torch yet, and what of the interpreter is probed runs under its lock,
        # which is held while probes are placed.
        for plan in order["plans"]:
            self._agent.place(plan, not late)
        warnings = self._agent.record_ops(order["op_agent"]) if order["op_agent"] else []
        # What torch registered is called after this: how it takes itself apart is no part of the
        # program.
        atexit.register(self.end)
        if self._children:
            os.register_at_fork(after_in_child=self._in_child)
        self._record(connection, order["bytes"], warnings)

    def _record(self, connection, size, warnings):
        descriptor = self._agent.share(size)
        try:
            hooked = self._agent.python(True)
            connection.send("recording", descriptor,
                            warnings=warnings + shortfalls(self._agent.counters(), hooked))
        finally:
            os.close(descriptor)
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
            with _Quiet():
                self._try(self._start_child, parent)

    def _start_child(self, parent):
        self._connection = _Connection(self._address, _PATIENCE)
        self._connection.send("program", process=self.process, parent=parent, forked=True,
                              rank=os.environ.get("RANK"))
        order = self._connection.receive()
        if order["order"] == "record":
            self._agent.stop()  # What records ops does not know yet that it is in another process.
            self._record(self._connection, order["bytes"], [])

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
        with _Quiet():
            self._recording = False
            try:
                self._agent.python(False)
                self._agent.stop()
                connection = _Connection(self._address, _END_PATIENCE)
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


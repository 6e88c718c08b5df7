"""The tracer in a program started by `optrace run`, from the import of torch to the end.

With a window (`--from-step`), the program runs without probes until the window's first step begins,
and again after its last one. Until then, only the steps are counted (steps.py).

Nothing here may raise, print, or leave anything behind when it returns, except the recording: no
descriptor stays open, and signals are blocked until the program's own code runs again.

The process waits for the command's answers for as long as the command lives: compiling for a new
torch may take minutes. When the command ends, however it does, the system closes the connection.
"""
import atexit
import os
import signal
import sys

from .agent import Agent
from .compiled.compilations import Compilations
from .connection import Connection, Quiet
from .description import finalized_later, interpreter_file, of_torch, shortfalls
from .op_records import dispatch_tables
from .problem import Problem, first_line
from .protocol import Key, Message, Order
from .steps import Steps


def begin(address, children, window, torch_folder):
    """Called when the import of torch begins, so that the command can plan during the import.

    `window` is the number of the first step to record and that of the steps, 0 for all; or None.
    """
    program = Program(address, children, window)
    with Quiet():
        program.connect(torch_folder)
    return program


class _Uninterrupted:
    """While it lasts, Ctrl-C raises no KeyboardInterrupt: the program is ending anyway, and a
    second one, which the terminal and the command may both send, would lose the recording."""

    def __enter__(self):
        self._replaced = False
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            try:
                signal.signal(signal.SIGINT, lambda *_: None)
                self._replaced = True
            except ValueError:  # Not the main thread, which alone is interrupted.
                pass

    def __exit__(self, *_):
        if self._replaced:
            signal.signal(signal.SIGINT, signal.default_int_handler)


class Program:
    """One traced process. A forked process is another one."""

    def __init__(self, address, children, window):
        self.process = os.getpid()
        self._address = address
        self._children = children
        self._window = window
        self._family = self.process  # The process that connected when it imported torch.
        self._connection = None
        self._agent = None
        self._torch = None
        self._recording = False
        self._compilations = None
        self._steps = None  # Counts steps until the end of the window.

    def connect(self, torch_folder):
        try:
            self._connection = Connection.to(self._address)
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
        self._torch = torch
        self._connection.send(Message.IMPORTED, {Key.META: of_torch(torch)})
        # Functions that torch registered run after this one; they are not part of the program.
        atexit.register(self.end)
        if self._children:
            os.register_at_fork(after_in_child=self._in_child)
        if self._window is not None:
            self._steps = Steps(self._step_ended)
            if self._window[0] > 1:
                return
        self._receive_and_place(late)

    def _receive_and_place(self, late):
        order, descriptors = self._connection.receive_with_region()
        if order[Key.ORDER] == Order.WATCH:
            self._watch_compilations()
            return
        try:
            if self._window is None:
                self._place(order, descriptors[0], late)
                return
            agent = self._agent = self._load_agent(order)
            agent.enter(-1)  # Forked children remove the probes from themselves.
            try:
                self._place(order, descriptors[0], late)
            except BaseException:
                self._recording = False
                agent.stop()
                agent.leave()
                raise
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    @staticmethod
    def _load_agent(order):
        return Agent(order[Key.AGENT], order[Key.USE_JUMPS])

    def _place(self, order, region, late):
        agent = self._agent = self._agent or self._load_agent(order)
        # A jump replaces more than one instruction, so no other thread may be about to enter the
        # function. At the end of its import, no thread uses torch yet, and the interpreter's probed
        # functions run with the GIL, which is held while probes are placed.
        agent.limit_returns(order[Key.RETURNS_PER_SITE])
        for plan in order[Key.PLANS]:
            agent.place(plan, not late)
            # Waiting once for a thread that makes no system call is enough.
            agent.use_jumps = agent.use_jumps and (not late or agent.counters().jumps != 0)
        warnings = (agent.record_ops(order[Key.OP_AGENT], order[Key.TENSORS])
                    if order[Key.OP_AGENT] else [])
        if order[Key.ACTIVITY_AGENT]:
            warnings += agent.record_device_activity(order[Key.ACTIVITY_AGENT], self._torch)
        if order[Key.CUDA_CALLS_AGENT]:
            warnings += agent.record_cuda_calls(order[Key.CUDA_CALLS_AGENT])
        self._record(region, warnings)

    def _record(self, region, warnings):
        self._agent.share(region)
        hooked = self._agent.python(True)
        self._connection.send(Message.RECORDING, {
            Key.PYTHON_FRAMES: hooked,
            Key.WARNINGS: warnings + shortfalls(self._agent.counters(), hooked)})
        self._connection.receive(Order.START)
        self._watch_compilations()
        self._agent.check("recording", self._agent.start())
        self._agent.record_live_functions()

    def _watch_compilations(self):
        """Records what is compiled: without an agent, this alone."""
        self._disconnect()
        self._recording = True
        self._compilations = Compilations()
        self._compilations.start()

    def _step_ended(self, count):
        """Called at the end of each step until the end of the window."""
        first, steps = self._window
        if count == first - 1 and not self._recording:
            with Quiet():
                self._begin_window()
        elif self._recording and steps and count >= first - 1 + steps:
            with Quiet():
                self._end_window()

    def _begin_window(self):
        if self._mine():
            self._try(self._start_again, self._family)
        if not self._recording:
            self._steps.stop()

    def _end_window(self):
        self._steps.stop()
        if self._mine():
            self._end_recording()

    def _is_waiting(self):
        return self._steps is not None and self._steps.count < self._window[0] - 1

    def _mine(self):
        """Returns false in a child whose fork went unnoticed or that is not to be traced."""
        return self.process == os.getpid()

    def _start_again(self, relative):
        """Connects again. `relative` is a process that the command knows."""
        self._connection = Connection.to(self._address)
        self._connection.send(Message.PROGRAM, {Key.PARENT: relative, Key.FORKED: True,
                                                Key.RANK: os.environ.get("RANK")})
        self._receive_and_place(True)

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
                self._compilations.stop()
                self._try(self._start_child, parent)

    def _start_child(self, parent):
        self._agent.stop()  # The op-record agent does not detect the fork.
        if self._window is not None:
            self._start_again(self._family)
            return
        self._connection = Connection.to(self._address)
        self._connection.send(Message.PROGRAM, {Key.PARENT: parent, Key.FORKED: True,
                                                Key.RANK: os.environ.get("RANK")})
        _, descriptors = self._connection.receive_with_region()
        try:
            self._record(descriptors[0], [])
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
        finally:  # Also if another thread took Ctrl-C, which interrupts this one.
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
        if not self._mine():
            return
        with _Uninterrupted(), Quiet():
            if self._steps is not None:
                self._steps.stop()
            if self._recording:
                self._end_recording()
            elif self._is_waiting() and self.process == self._family:
                self._say(Message.ENDED)

    def _end_recording(self):
        self._recording = False
        try:
            if self._agent is not None:
                self._agent.python(False)
                self._agent.stop()
            self._compilations.stop()
            self._say(Message.ENDED, self._send_tables)
        except Exception:
            pass
        finally:
            if self._window is not None:
                self._agent.leave()

    def _say(self, message, then=None):
        try:
            connection = Connection.to(self._address)
            try:
                steps = {} if self._steps is None else {Key.STEPS: self._steps.count}
                connection.send(message, steps)
                if then is not None:
                    then(connection)
            finally:
                connection.close()
        except Exception:
            pass

    def _send_tables(self, connection):
        ops = connection.receive(Order.TABLES)[Key.OPS]
        meta = {**dispatch_tables(sys.modules["torch"], ops), **self._compilations.meta()}
        meta.setdefault("shortfalls", {})["finalized_later"] = finalized_later(
            sys.modules["torch"])
        connection.send(Message.TABLES, {Key.META: meta})

"""Connection between a traced program and the command, isolated from the program's own code."""
import _signal
import _socket
import array
import fcntl
import gc
import json
import os

from .problem import FAILED, Problem
from .protocol import Key, Order

_HIGH_DESCRIPTOR = 256  # Programs may rely on the numbers of their own files.
_MOST_DESCRIPTORS = 250
# Signals caused by a fault are never blocked, because the kernel ends a process that blocks one.
_FAULTS = {_signal.SIGSEGV, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGILL, _signal.SIGABRT,
           _signal.SIGTRAP, _signal.SIGSYS}


class Quiet:
    """Runs no signal handler of the program and no garbage collection inside the block."""

    def __enter__(self):
        # Pending handlers run here, before the block.
        self._blocked = _signal.pthread_sigmask(_signal.SIG_BLOCK,
                                                _signal.valid_signals() - _FAULTS)
        self._collects = gc.isenabled()
        gc.disable()

    def __exit__(self, *ignored):
        if self._collects:
            gc.enable()
        _signal.pthread_sigmask(_signal.SIG_SETMASK, self._blocked)


class Connection:
    """Sends and receives one JSON object per line over the command's socket. Raises OSError."""

    def __init__(self, socket):
        self._received = b""
        self._socket = socket

    @classmethod
    def to(cls, address):
        """Connects to the command, and waits for its answers until it ends."""
        socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            socket = _high(socket)
            socket.settimeout(None)  # The program may have set a default.
            socket.connect(address)
        except BaseException:
            socket.close()
            raise
        return cls(socket)

    def send(self, message, values=None):
        data = (json.dumps({**(values or {}), Key.MESSAGE: message}) + "\n").encode("ascii")
        while data:
            data = data[self._socket.send(data, _socket.MSG_NOSIGNAL):]

    def receive(self, order):
        """Returns the next message, which must be this order."""
        message, descriptors = self.receive_with_descriptors()
        for descriptor in descriptors:
            os.close(descriptor)
        if message[Key.ORDER] != order:
            raise Problem(FAILED, "the command sent '%s' where '%s' was due"
                          % (message[Key.ORDER], order), "Report it with this line.")
        return message

    def receive_with_region(self):
        """Returns the order to record and the descriptors sent with it, which the caller owns.

        The first descriptor is the memory shared with the command. The order to record only what
        is compiled needs none.
        """
        message, descriptors = self.receive_with_descriptors()
        if message[Key.ORDER] == Order.WATCH and not descriptors:
            return message, descriptors
        if len(descriptors) != 1 + len(message.get(Key.FILES, ())):
            for descriptor in descriptors:
                os.close(descriptor)
            raise Problem(FAILED, "the process can't receive the files sent by the command",
                          "Raise its limit on open files (ulimit -n).")
        return message, descriptors

    def receive_with_descriptors(self):
        """Returns the next message and the descriptors sent with it, which the caller owns."""
        descriptors = array.array("i")
        while b"\n" not in self._received:
            data, control, _, _ = self._socket.recvmsg(
                1 << 16, _socket.CMSG_SPACE(_MOST_DESCRIPTORS * descriptors.itemsize),
                _socket.MSG_CMSG_CLOEXEC)
            for level, kind, numbers in control:
                if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
                    descriptors.frombytes(
                        numbers[:len(numbers) - len(numbers) % descriptors.itemsize])
            if not data:
                raise ConnectionError("the command has ended")
            self._received += data
        line, self._received = self._received.split(b"\n", 1)
        return json.loads(line), list(descriptors)

    def close(self):
        self._socket.close()


def _high(socket):
    try:
        number = fcntl.fcntl(socket.fileno(), fcntl.F_DUPFD_CLOEXEC, _HIGH_DESCRIPTOR)
    except OSError:  # The limit of descriptors is lower.
        return socket
    socket.close()
    return _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, number)

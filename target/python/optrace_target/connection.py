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

# Programs may rely on the numbers of their own files, and write to a standard error that they have
# closed. The limit on open files may be low.
_HIGH_DESCRIPTORS = (1000, 256, 64, 3)
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


def _user_of_other_end(socket):
    ucred = socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)  # pid, uid, gid
    return array.array("i", ucred)[1]


class Connection:
    """Sends and receives one JSON object per line over the command's socket. Raises OSError."""

    def __init__(self, socket):
        self._received = b""
        self._socket = socket

    @classmethod
    def to(cls, address):
        """Connects to the command, and waits for its answers until it ends."""
        with _StandardNumbersHeld():
            low = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
            socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, _raised(low.detach()))
        try:
            socket.settimeout(None)  # The program may have set a default.
            socket.connect(address)
            if _user_of_other_end(socket) not in (0, os.geteuid()):
                raise PermissionError("another user listens at " + str(address))
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
        descriptors = []
        while b"\n" not in self._received:
            self._socket.recv(1, _socket.MSG_PEEK)
            with _StandardNumbersHeld():
                data, control, _, _ = self._socket.recvmsg(
                    1 << 16, _socket.CMSG_SPACE(_MOST_DESCRIPTORS * array.array("i").itemsize),
                    _socket.MSG_CMSG_CLOEXEC)
                for level, kind, numbers in control:
                    if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
                        came = array.array("i")
                        came.frombytes(numbers[:len(numbers) - len(numbers) % came.itemsize])
                        descriptors += map(_raised, came)
            if not data:
                raise ConnectionError("the command has ended")
            self._received += data
        line, self._received = self._received.split(b"\n", 1)
        return json.loads(line), descriptors

    def close(self):
        self._socket.close()


class _StandardNumbersHeld:
    """Holds the numbers 0 to 2 inside the block if they are free. A write to a descriptor that is
    only a path fails as if it were closed."""

    def __enter__(self):
        self._held = []
        try:
            while not self._held or self._held[-1] < 2:
                self._held.append(os.open("/", os.O_PATH | os.O_CLOEXEC))
        except OSError:  # No descriptor is left.
            pass

    def __exit__(self, *_):
        for descriptor in self._held:
            os.close(descriptor)


def _raised(descriptor):
    """Gives a descriptor a high number, and returns it."""
    for lowest in _HIGH_DESCRIPTORS:
        try:
            number = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest)
        except OSError:  # The limit is lower.
            continue
        os.close(descriptor)
        return number
    return descriptor

"""A socket over which `optrace attach` may come in without ptrace (docs/attach.md)."""
import _thread
import atexit
import os
import pathlib
import signal
import socket
import struct
import time

from ._error import Error

_ATTACHED = pathlib.Path(__file__).parent / "share/optrace/target/attach.py"
# A fault's own signals are never blocked: the system ends a process that can't take one.
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT,
           signal.SIGTRAP, signal.SIGSYS}
_listener = None


def listen():
    """Lets `optrace attach` trace this process without ptrace, from now until it ends.

    Only processes of the same user can: the socket is in a folder that nobody else can enter. Its
    path is returned. A forked child listens, too, at its own. Calling it again does no more.
    Raises optrace.Error where no socket can be made.
    """
    global _listener
    if _listener is None:
        _remove_left_behind(_folder())
        _listener = _Listener()
        os.register_at_fork(after_in_child=_after_fork)
        atexit.register(_close)
    return _listener.path


class _Listener:
    def __init__(self):
        try:
            self.path = os.path.join(_folder(), str(os.getpid()))
            self._code = compile(_ATTACHED.read_text(), "<optrace attach>", "exec")
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._bind()
            self._identity = self._identify()
            _thread.start_new_thread(self._serve, ())
        except (OSError, RuntimeError) as error:  # The latter where there can be no thread.
            raise Error(f"this process can't listen: {error}",
                        "Set OPTRACE_CACHE_DIR to a folder on a local disk.") from error

    def _bind(self):
        """Whoever finds the socket can connect to it: it gets its name last of all."""
        folder = os.open(os.path.dirname(self.path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # By way of the descriptor, a path is never too long for an address.
            new = f"/proc/self/fd/{folder}/{os.getpid()}.new"
            if os.path.lexists(new):
                os.unlink(new)
            self._socket.bind(new)
            os.chmod(new, 0o600)
            self._socket.listen(8)
            os.rename(new, self.path)
        finally:
            os.close(folder)

    def _serve(self):
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _FAULTS)
        while self._identify() == self._identity:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                time.sleep(1)  # Too many files are open.
                continue
            if _is_ours(connection):
                exec(self._code, {"descriptor": connection.detach(), "page": 0, "size": 0})
            else:
                connection.close()

    def _identify(self):
        """Programs that close all descriptors may get another file under this number."""
        try:
            status = os.fstat(self._socket.fileno())
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def close(self):
        if self._identify() == self._identity:
            self._socket.close()
        else:
            self._socket.detach()

    def remove(self):
        try:
            os.unlink(self.path)
        except OSError:
            pass


def _folder():
    from . import _optrace
    return os.fspath(_optrace.listening_folder())


def _is_ours(connection):
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", peer)[1] in (os.geteuid(), 0)


def _remove_left_behind(folder):
    """Sockets of processes that ended in no orderly way: nobody listens there any more."""
    for entry in os.scandir(folder):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
            try:
                trial.connect(entry.path)
            except ConnectionRefusedError:
                try:
                    os.unlink(entry.path)
                except OSError:
                    pass
            except OSError:
                pass


def _after_fork():
    global _listener
    if _listener is not None:
        _listener.close()  # The parent's goes on: it has the same socket.
        _listener = None
    try:
        _listener = _Listener()
    except Error:
        pass  # It can't be attached to so, and goes on.


def _close():
    if _listener is not None:
        _listener.remove()

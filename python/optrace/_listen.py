"""A socket by which `optrace attach` can trace a process without ptrace (docs/attach.md).

With OPTRACE_LISTEN=1, every Python executes this module when it starts. Therefore it imports only
modules that the interpreter has anyway, does nothing that could wait for another process, and
accesses no entry of the folder but its own: `optrace attach` removes the entries that ended
processes left behind.
"""
import _frozen_importlib
import _imp
import _thread
import atexit
import os
import sys

_ATTACHED = os.path.join(os.path.dirname(__file__), "share/optrace/target/attach.py")
_listener = None


def listen():
    """Lets `optrace attach` trace this process without ptrace until the process ends.

    Only processes of the same user can connect: the socket is in a folder that no other user can
    enter. Returns the path of the socket. A forked child listens too, on its own socket. Further
    calls have no effect and return the same path. Raises optrace.Error if no socket can be made.
    """
    global _listener
    if _listener is None:
        _listener = _Listener()
        os.register_at_fork(after_in_child=_after_fork)
        atexit.register(_close)
    return _listener.path


class _Listener:
    def __init__(self):
        try:
            import _socket  # Some builds of CPython lack it.
            path = _folder()
            self.path = os.path.join(path, str(os.getpid()))
            with open(_ATTACHED, encoding="utf-8") as file:
                self._text = file.read()
            new = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
            self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0,
                                          _raised(new.detach()))
            self._socket.setblocking(True)  # The program may have set a default timeout.
            self._bind(path)
            self._identity = self._identify()
            _start_thread(self._serve)
        except (ImportError, OSError, RuntimeError) as error:  # RuntimeError: no thread started.
            from ._error import Error
            raise Error(f"this process can't listen: {error}",
                        "Set OPTRACE_CACHE_DIR to a folder on a local disk that only this user "
                        "can write to.") from error

    def _bind(self, path):
        """Renames the socket last, since any process that finds it can connect to it."""
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _require(os.fstat(folder), 0o077, path)
            # A path by way of the descriptor is never too long for a socket address.
            new = f"/proc/self/fd/{folder}/{os.getpid()}.new"
            try:
                os.unlink(new)
            except FileNotFoundError:
                pass
            self._socket.bind(new)
            os.chmod(new, 0o600)
            self._socket.listen(8)
            os.rename(new, self.path)
        finally:
            os.close(folder)

    def _serve(self):
        import _signal  # type: ignore[import-not-found]  # Not in typeshed.
        # Signals of faults are never blocked: the kernel ends a process that can't take one.
        _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals() - {
            _signal.SIGSEGV, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGILL, _signal.SIGABRT,
            _signal.SIGTRAP, _signal.SIGSYS})
        while self._identify() == self._identity:
            try:
                descriptor, _ = self._socket._accept()  # type: ignore[attr-defined]
                descriptor = _raised(descriptor)
            except OSError:
                import time
                time.sleep(1)  # Too many open files.
                continue
            if _is_ours(descriptor):
                self._answer(descriptor)
            else:
                os.close(descriptor)

    def _answer(self, descriptor):
        try:
            code = compile(self._text, "<optrace attach>", "exec")
            _start_thread(exec, code, {"descriptor": descriptor})
        except Exception:  # No thread can be started; the command sees the connection end.
            os.close(descriptor)

    def _identify(self):
        """Detects another file under this number, in programs that close all descriptors."""
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


def _start_thread(function, *arguments):
    """Starts a system thread, even where gevent and the like replace threads with greenlets."""
    module = _thread
    # A new module object has the interpreter's own function. Python 3.9 has only the first object.
    if sys.version_info >= (3, 10):
        module = _imp.create_builtin(_frozen_importlib.ModuleSpec("_thread", None))
        _imp.exec_builtin(module)
    module.start_new_thread(function, arguments)


def _folder():
    """The folder that `optrace attach` searches, as cache_folder() in platform/files/ finds it.
    Creates it if needed. Raises OSError if that fails or if other users have access to it."""
    own, xdg, home = map(os.environ.get, ("OPTRACE_CACHE_DIR", "XDG_CACHE_HOME", "HOME"))
    if not (own or xdg or home):
        raise OSError("HOME is not set")
    if not (own or xdg or os.path.isdir(home or "")):
        raise OSError(f"HOME is {home}, which does not exist")
    cache = own or (os.path.join(xdg, "optrace") if xdg
                    else os.path.join(home or "", ".cache/optrace"))
    folder = os.path.join(cache, "listening")
    os.makedirs(cache, 0o700, exist_ok=True)
    os.makedirs(folder, 0o700, exist_ok=True)
    _require(os.stat(cache), 0o022, cache)
    return folder


def _require(status, forbidden, path):
    if status.st_uid != os.geteuid():
        raise OSError(f"{path} belongs to another user")
    if status.st_mode & forbidden:
        raise OSError(f"other users have access to {path}")


def _raised(descriptor):
    """Gives a descriptor a high number, because a program may have closed its standard error and
    still write to it. Returns the number."""
    import fcntl
    for lowest in (1000, 256, 64, 3):  # The limit on open files may be low.
        try:
            number = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest)
        except OSError:
            continue
        os.close(descriptor)
        return number
    return descriptor


def _is_ours(descriptor):
    """True if a process of this user or of root has connected."""
    import _socket
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, descriptor)
    try:
        # struct ucred: the process, its user and its group, each an int.
        peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    finally:
        connection.detach()
    return int.from_bytes(peer[4:8], "little") in (os.geteuid(), 0)


def _after_fork():
    global _listener
    if _listener is not None:
        _listener.close()  # The parent keeps the same socket open.
        _listener = None
    try:
        _listener = _Listener()
    except Exception:
        pass  # The child goes on, but can't be attached to in this way.


def _close():
    if _listener is not None:
        _listener.remove()

"""Code that `optrace attach` makes a running interpreter execute, on a thread created for it.

The command sends this text and, as globals, `descriptor`, the descriptor of a socket to the
command, and `other_end`, this process's copy of the command's end. A program that listens executes
its own copy, without `other_end`. Nothing here may raise or print.
"""


def _serve(descriptor, other_end):
    import _signal
    import _socket
    import json
    import posix
    import sys
    import types

    # Signals belong to the program. Signals caused by a fault are never blocked, because the kernel
    # ends a process that blocks one.
    _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals() - {
        _signal.SIGSEGV, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGILL, _signal.SIGABRT,
        _signal.SIGTRAP, _signal.SIGSYS})
    socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, descriptor)
    try:
        if other_end is not None:
            # The command has its end when it sends something. If it was killed before, nothing
            # comes, and only closing the copy ends the connection.
            socket.settimeout(5)
            try:
                socket.recv(1, _socket.MSG_PEEK)
            except OSError:
                pass
            finally:
                posix.close(other_end)
        socket.setblocking(True)  # Independent of the program's default timeout.
        data = b""
        while not data.endswith(b"\n"):
            part = socket.recv(1 << 16)
            if not part:
                return  # The command has given up.
            data += part
        name = "_optrace_attached"
        package = types.ModuleType(name)
        package.__path__ = []
        loaded = {name: package}
        sys.modules[name] = package
        try:
            for stem, source in json.loads(data):  # In dependency order.
                module = types.ModuleType("%s.%s" % (name, stem.replace("/", ".")))
                module.__package__ = module.__name__.rpartition(".")[0]
                exec(compile(source, "<optrace %s>" % stem, "exec"), module.__dict__)
                sys.modules[module.__name__] = loaded[module.__name__] = module
        finally:
            for stem in loaded:
                sys.modules.pop(stem, None)
        module.serve(socket)
    finally:
        socket.close()


try:
    _serve(globals()["descriptor"], globals().get("other_end"))
except Exception:
    pass  # The command notices the end of the connection.

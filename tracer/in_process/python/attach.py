"""Code that `optrace attach` makes a running interpreter execute, on a thread created for it.

The command sends this text and, as a global, `descriptor`, the descriptor of a socket to the
command; a program that listens executes its own copy. Nothing here may raise or print.
"""


def _serve(descriptor):
    import _signal
    import _socket
    import json
    import sys
    import types

    # Signals belong to the program. Signals caused by a fault are never blocked, because the kernel
    # ends a process that blocks one.
    _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals() - {
        _signal.SIGSEGV, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGILL, _signal.SIGABRT,
        _signal.SIGTRAP, _signal.SIGSYS})
    socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, descriptor)
    try:
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
                module = types.ModuleType("%s.%s" % (name, stem))
                module.__package__ = name
                exec(compile(source, "<optrace %s>" % stem, "exec"), module.__dict__)
                sys.modules[module.__name__] = loaded[module.__name__] = module
        finally:
            for stem in loaded:
                sys.modules.pop(stem, None)
        module.serve(socket)
    finally:
        socket.close()


try:
    _serve(globals()["descriptor"])
except Exception:
    pass  # The command notices the end of the connection.

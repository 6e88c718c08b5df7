"""What `optrace attach` has a running interpreter execute, on a thread that was made for it.

The command sends the text and, as a global, `descriptor`, of a socket to it; a program that listens
executes its own copy of this. Nothing may raise or print here.
"""


def _serve(descriptor):
    import _signal
    import _socket
    import json
    import sys
    import types

    # Signals are the program's. A fault's own are never blocked: the system ends a process that
    # can't take one.
    _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals() - {
        _signal.SIGSEGV, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGILL, _signal.SIGABRT,
        _signal.SIGTRAP, _signal.SIGSYS})
    socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, descriptor)
    try:
        socket.setblocking(True)  # Whatever the program has as a default.
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
            for part, source in json.loads(data):  # Each after those that it imports.
                module = types.ModuleType("%s.%s" % (name, part))
                module.__package__ = name
                exec(compile(source, "<optrace %s>" % part, "exec"), module.__dict__)
                sys.modules[module.__name__] = loaded[module.__name__] = module
        finally:
            for part in loaded:
                sys.modules.pop(part, None)
        module.serve(socket)
    finally:
        socket.close()


try:
    _serve(descriptor)
except Exception:
    pass  # The command sees that the connection ended.

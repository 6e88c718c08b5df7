"""What `optrace attach` has a running interpreter execute, between two of its instructions.

The command sends the text and, as globals, `descriptor`, of a socket to it, and `page` and `size`,
of the memory that the text came in; no page where a program that listens executes its own copy of
this. The program goes on at once: a thread does everything else.
Nothing may raise or print here.
"""


def _serve(descriptor, page, size):
    import _signal
    import _socket
    import ctypes
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
        if page:
            ctypes.CDLL(None).munmap(ctypes.c_void_p(page), ctypes.c_size_t(size))
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


def _serve_quietly(*arguments):
    try:
        _serve(*arguments)
    except Exception:
        pass  # The command sees that the connection ended.


def _start(*arguments):
    module = __import__("_thread")
    # gevent and the like put greenlets in the place of threads there. A new module has the
    # interpreter's own function; Python 3.9 has no other module than the first.
    if __import__("sys").version_info >= (3, 10):
        builtin = __import__("_imp")
        spec = __import__("_frozen_importlib").ModuleSpec("_thread", None)
        module = builtin.create_builtin(spec)
        builtin.exec_builtin(module)
    module.start_new_thread(_serve_quietly, arguments)


try:
    _start(descriptor, page, size)
except Exception:
    __import__("os").close(descriptor)

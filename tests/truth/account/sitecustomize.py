"""Keeps an account of what a Python process calls, independently of optrace.

Writes lines "NAME<tab>CALLS" to a file of $ACCOUNT/ for each process: Python functions, by
sys.setprofile, and ops, by op_account.cpp ($ACCOUNT_LIBRARY). It starts when modules of torch are
imported: those of $ACCOUNT_MODULES, which a run without that variable writes. Python functions
that imports or torch.compile's compiler call, too, have -1. With $ACCOUNT_SIGNAL, nothing is
counted; the process signals itself when it has imported the modules.
"""
import atexit
import collections
import ctypes
import importlib
import inspect
import os
import pathlib
import signal
import sys
import threading

calls, elsewhere = collections.Counter(), set()
starts = {}  # Code -> the instruction at which it starts; a generator resumes at others.
outside = 1  # More than 0 in imports and compilations.


def called(frame, event, arg):
    code = frame.f_code
    is_function = code.co_flags & inspect.CO_OPTIMIZED  # And not the body of a class or module.
    if event == "call" and is_function and starts.setdefault(code, frame.f_lasti) == frame.f_lasti:
        name = str(frame.f_globals.get("__name__")), code.co_qualname
        if outside:
            elsewhere.add(name)
        else:
            calls[name] += 1


def import_modules(names):
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:  # Some can't be imported by themselves.
            pass


def keep_account():
    library = ctypes.CDLL(os.environ["ACCOUNT_LIBRARY"])

    def write():
        sys.setprofile(None)
        path = f"{os.environ['ACCOUNT']}/{os.getpid()}"
        with open(path, "a", encoding="utf-8") as file:
            for name, number in (calls | dict.fromkeys(elsewhere, -1)).items():
                file.write(f"{'.'.join(name)}\t{number}\n".replace("__mp_main__", "__main__"))
        calls.clear()
        library.account_write(path.encode())

    def leave(status, really=os._exit):
        write()
        really(status)

    def clear():
        calls.clear()
        library.account_clear()

    def change(by):
        global outside
        outside += by
        library.account_count(outside == 0)

    if "torch._dynamo.callback" in sys.modules:
        handler = sys.modules["torch._dynamo.callback"].callback_handler
        handler.register_start_callback(lambda *_: change(1))
        handler.register_end_callback(lambda *_: change(-1))
    atexit.register(write)
    os._exit = leave
    os.register_at_fork(after_in_child=clear)
    library.account_start()
    change(-1)


if modules := os.environ.get("ACCOUNT_MODULES"):
    if not os.environ.get("ACCOUNT_SIGNAL"):
        threading.setprofile(called)
        sys.setprofile(called)
    import_modules(pathlib.Path(modules).read_text(encoding="utf-8").split())
    if os.environ.get("ACCOUNT_SIGNAL"):
        os.kill(os.getpid(), signal.SIGUSR1)
    else:
        keep_account()
elif folder := os.environ.get("ACCOUNT"):
    atexit.register(lambda: pathlib.Path(folder, f"{os.getpid()}.modules").write_text(
        "\n".join(name for name in list(sys.modules) if name.split(".")[0] == "torch")))

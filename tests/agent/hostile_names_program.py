"""Run by test_agent_python.py and test_harmless.py: objects whose hooks a tracer must not run.

hostile_names_program.py [AGENT RECORDING]

While armed, each hook of these objects aborts the process. Their functions are called, so a tracer
that gets their names from anything but the interpreter's own fields is detected. Then alarms go off
around the first calls of builtins: the exception of each handler must arrive.
"""
import ctypes
import math
import os
import signal
import sys
import time
import types

armed = []


def hook(*arguments, **keywords):
    if armed:
        os.write(2, b"a hook of the program was run\n")
        os.abort()
    return NotImplemented


def hostile(kind, *bases, **members):
    """Returns a class whose instances abort the process on every look-up, while armed."""
    def look(self, name):
        hook()
        return kind.__getattribute__(self, name) if kind in bases else \
            object.__getattribute__(self, name)

    names = ("__getattr__", "__eq__", "__ne__", "__str__", "__repr__", "__len__", "__getitem__",
             "__contains__", "__missing__", "__iter__", "__call__", "__get__", "__format__",
             "__bool__", "__index__", "__instancecheck__", "__subclasscheck__")
    hooks = dict.fromkeys(names, hook)
    hooks.update(__getattribute__=look, __hash__=kind.__hash__ or object.__hash__)
    return type("Hostile", bases or (kind,), {**hooks, **members})


Text = hostile(str)
Object = hostile(object)
Dictionary = hostile(dict)


class Meta(type):
    """A metaclass whose classes abort the process on every look-up, while armed."""

    def __getattribute__(cls, name):
        hook()
        return type.__getattribute__(cls, name)

    def __getattr__(cls, name):
        hook()
        raise AttributeError(name)

    __eq__ = __str__ = __repr__ = __instancecheck__ = __subclasscheck__ = hook
    __hash__ = type.__hash__


Listing = Meta("Listing", (list,), {"__getattribute__": hostile(list).__dict__["__getattribute__"],
                                    "__len__": hook, "__eq__": hook, "__repr__": hook})


class Colliding:
    """A dictionary key that must be compared with another key, since both have the same hash."""

    def __init__(self, text):
        self.hash = hash(text)

    def __hash__(self):
        return self.hash

    __eq__ = hook


class Module(types.ModuleType):
    def __getattribute__(self, name):
        hook()
        return types.ModuleType.__getattribute__(self, name)

    def __getattr__(self, name):
        hook()


def functions():
    """Yields callables, each with the expected end of its name."""
    listing = Listing()
    yield (lambda call=list.append.__get__(listing): call(1)), "append"
    yield (lambda call=object.__sizeof__.__get__(Object()): call()), "__sizeof__"
    yield (lambda call=dict.setdefault.__get__(Dictionary()): call(1, 2)), "setdefault"
    yield (lambda call=str.upper.__get__(Text("x")): call()), "upper"
    yield (lambda call=type.mro.__get__(Listing): call()), "mro"
    math.floor.__module__ = Text("hostile.text")
    yield (lambda call=math.floor: call(1)), "hostile.text.floor"
    math.ceil.__module__ = Object()
    yield (lambda call=math.ceil: call(1)), "ceil"
    math.__class__ = Module
    yield (lambda call=math.tan: call(0)), "math.tan"

    source = "def lonely(self=None):\n    return 1\n"
    names: dict
    for names in (Dictionary(), {"__name__": Object()}, {"__name__": Text("spoken")},
                  {"__name__": "lone\udc80"}):
        exec(source, names)
        lonely = dict.__getitem__(names, "lonely")
        dict.pop(names, "lonely")
        dict.__setitem__(names, Colliding("lonely"), Object())
        if not dict.__contains__(names, "__name__"):
            dict.__setitem__(names, Colliding("__name__"), Object())
        yield lonely, "lonely"
    names = {}
    exec(source, names)
    lonely = names["lonely"]
    names["lonely"] = Object()
    yield lonely, "lonely"
    names = {}
    exec(source, names)
    lonely = names["lonely"]
    lonely.__qualname__ = Text("qualified")
    lonely.__wrapped__ = Object()
    yield lonely, "lonely"

    class Holder(metaclass=Meta):
        def method(self):
            return (lambda: self) and 1
    yield (lambda call=Holder.method, first=Holder(): call(first)), "method"


class Alarm(Exception):
    pass


def never_called():
    """Yields builtins that can be called without arguments. Tracers don't see the trial calls."""
    kinds: tuple[type, ...] = (str, bytes, bytearray, list, dict, set, frozenset, int, float,
                               complex)
    texts: dict = {bytes: b"x", bytearray: b"x"}
    for kind in kinds:
        for name, method in sorted(vars(kind).items()):
            if isinstance(method, types.MethodDescriptorType) and name != "__reduce__":
                try:
                    method(kind(texts.get(kind, "1")) if kind in
                           (str, bytes, bytearray, int, float, complex) else kind())
                    bound = method.__get__(kind())
                    bound.__module__ = "somewhere"  # Like torch's, it has a module and a class.
                    yield bound
                except Exception:
                    pass


def alarms(builtins):
    """Returns (alarms, exceptions that arrived), with an alarm around each builtin's first call."""
    went_off = arrived = 0

    def go_off(number, frame):
        nonlocal went_off
        went_off += 1
        raise Alarm

    signal.signal(signal.SIGALRM, go_off)
    set_timer, timer = signal.setitimer, signal.ITIMER_REAL

    def call(number, builtin):
        set_timer(timer, 1e-6 * (1 + number % 23))
        builtin()
        # sleep() has the interpreter look for signals again. While it clears its note of an earlier
        # signal, CPython can miss one that arrives in the same nanoseconds, traced or not.
        while went_off <= number:
            time.sleep(0)

    left = enumerate(builtins)
    while True:
        try:
            for number, builtin in left:
                call(number, builtin)
            return went_off, arrived
        except Alarm:
            arrived += 1


def run(calls, builtins):
    armed.append(True)
    for call in calls:
        call()
    armed.clear()
    went_off, arrived = alarms(builtins)
    assert went_off == arrived > 100, (went_off, arrived)


def main():
    builtins = list(never_called())
    calls = [call for call, _ in functions()]
    if len(sys.argv) > 1:
        agent = ctypes.PyDLL(sys.argv[1])
        from recording_file import record_into

        record_into(agent, sys.argv[2])
        assert agent.optrace_agent_python(1) == 0
        assert agent.optrace_agent_start() == 0
        run(calls, builtins)
        assert agent.optrace_agent_stop() == 0
        assert agent.optrace_agent_python(0) == 0
    else:
        run(calls, builtins)
    print("done")


if __name__ == "__main__":
    main()

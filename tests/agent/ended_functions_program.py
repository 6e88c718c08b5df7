"""Traced by test_agent_python.py: functions and classes that are created, called and destroyed.

ended_functions_program.py AGENT RECORDING COUNT

Each function calls abs() in a different line. Tracing must not keep their objects alive, and one
that is created at the address of a destroyed one must get its own name and lines. Another
interpreter creates and destroys functions at the same time.
"""
import ctypes
import gc
import sys
import threading
import types
import weakref

from recording_file import record_into

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

TYPE_END = 48  # Offset of tp_dealloc in a type object.
ELSEWHERE = """
for i in range(3000):
    names = {}
    exec("def f%d():\\n    return abs(%d)\\n" % (i, i), names)
    names["f%d" % i]()
"""


def end_of_code_objects():
    return ctypes.c_void_p.from_address(id(types.CodeType) + TYPE_END).value


def source_of(number):
    """Returns the source of a function that calls abs() in line 2 + number % 7."""
    return "def f{0}(x):\n{1}    return abs({0})\n".format(number, "    x = (x,)\n" * (number % 7))


class Watched:
    """Counts the objects that are still alive."""

    def __init__(self):
        self.alive = 0
        self.references = []

    def add(self, watched):
        self.alive += 1
        self.references.append(weakref.ref(watched, self.ended))

    def ended(self, _):
        self.alive -= 1


def call_functions(count, watched):
    addresses = set()
    for number in range(count):
        names = {}
        exec(source_of(number), names)
        function = names["f%d" % number]
        function(number)
        watched.add(function)
        watched.add(function.__code__)
        addresses.add(id(function.__code__))
    return len(addresses)


def call_methods(watched):
    for _ in range(10):
        kind = type("Kind", (list,), {})
        kind().append(1)
        watched.add(kind)


class MethodDef(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("text", ctypes.c_char_p)]


def call_builtins():
    """Calls two builtins, defined one after the other in the same PyMethodDef, as in pybind11."""
    of_abs = ctypes.POINTER(MethodDef).from_address(id(abs) + 16).contents
    definition = MethodDef(b"", of_abs.function, of_abs.flags, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    for name in (b"first_at_address", b"second_at_address"):
        definition.name = name
        make(ctypes.byref(definition), None, None)(1)


def kept(value):
    return value


def run_elsewhere():
    other = interpreters.create()
    interpreters.run_string(other, ELSEWHERE)
    interpreters.destroy(other)


def main():
    agent = ctypes.PyDLL(sys.argv[1])
    python, start, stop = [getattr(agent, "optrace_agent_" + name)
                           for name in ("python", "start", "stop")]
    end = end_of_code_objects()
    references = sys.getrefcount(kept.__code__)
    count = int(sys.argv[3])
    for last in (False, True):  # The second recording is independent of the first.
        watched = Watched()
        elsewhere = threading.Thread(target=run_elsewhere)
        record_into(agent, sys.argv[2])
        assert python(1) == 0 and start() == 0
        elsewhere.start()
        kept(1)
        addresses = call_functions(count if last else 100, watched)
        call_methods(watched)
        call_builtins()
        elsewhere.join()
        gc.collect()
        assert watched.alive == 0, watched.alive
        assert sys.getrefcount(kept.__code__) == references
        assert stop() == 0 and python(0) == 0
        assert end_of_code_objects() == end
    assert addresses < count / 2, "no address was used again"
    sys.stdout.write("done\n")


main()

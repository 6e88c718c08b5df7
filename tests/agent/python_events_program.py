"""Traced by test_agent_python.py: calls of every kind, with the agent's Python events on.

python_events_program.py AGENT RECORDING [torch]
"""
import collections.abc
import contextlib
import ctypes
import functools
import math
import os
import sys

from recording_file import record_into


def decorated(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments)
    return wrapper


class Base:
    def method(self, value):
        return math.sqrt(value)

    @classmethod
    def of_class(cls):
        return len([1])

    @property
    def value(self):
        return 3

    @decorated
    def wrapped(self):
        return 4


class Derived(Base):
    def method(self, value):
        return super().method(value)


def generator():
    yield 1


def fails():
    raise ValueError


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
def called_by_c(_):
    math.cos(0)


def work_in_a_thread_of_c():
    """Python knows this thread only while it is in called_by_c()."""
    c = ctypes.CDLL(None)
    thread = ctypes.c_ulong()
    assert c.pthread_create(ctypes.byref(thread), None, called_by_c, None) == 0
    assert c.pthread_join(thread, None) == 0


def work():
    one = Derived()
    one.method(4.0)  # line: method
    Derived.of_class()
    _ = one.value
    one.wrapped()
    [0].append(1)  # line: append
    for _ in generator():
        pass
    try:
        fails()
    except ValueError:
        pass
    with contextlib.suppress(ValueError):
        int("no number")


def torch_work(torch, tensor, parameter):
    torch.conv2d(tensor, tensor)
    tensor.add_(tensor)
    parameter.detach()
    torch.nn.functional.relu(tensor)


def main():
    agent = ctypes.PyDLL(sys.argv[1])
    python, start, stop = [getattr(agent, "optrace_agent_" + name)
                           for name in ("python", "start", "stop")]
    record_into(agent, sys.argv[2])
    act: collections.abc.Callable
    if sys.argv[3:] == ["torch"]:
        import torch
        tensor = torch.ones(1, 1, 2, 2)
        act = functools.partial(torch_work, torch, tensor, torch.nn.Parameter(tensor))
    else:
        act = work

    # Another profile function stays set, behind the agent's, and receives its events.
    seen = []
    foreign = lambda frame, event, argument: seen.append(event)  # noqa: E731
    sys.setprofile(foreign)
    assert python(1) == 0
    assert sys.getprofile() is foreign
    del seen[:]
    abs(1)
    assert seen[:2] == ["c_call", "c_return"], seen
    assert python(0) == 0
    assert sys.getprofile() is foreign
    sys.setprofile(None)

    references = sys.getrefcount(Derived)
    assert python(1) == 0 and python(1) == 0
    assert start() == 0
    act()
    work_in_a_thread_of_c()
    assert stop() == 0
    assert python(0) == 0 and python(0) == 0
    assert sys.getprofile() is None
    assert sys.getrefcount(Derived) == references
    assert sys.exc_info() == (None, None, None)
    sys.stdout.write("done\n")
    sys.stdout.flush()
    if sys.argv[3:] == ["torch"]:
        os._exit(0)  # torch's shutdown is not tested here.


main()

"""Traced by test_agent_python.py: functions of torch.nn with variables that say why not.

why_not_program.py AGENT RECORDING
"""
import ctypes
import gc
import sys
import types

from recording_file import record_into

SOURCE = '''
def plain():
    why_not_fast_path = REASON
    return why_not_fast_path

def empty():
    why_not_fast_path = ""

def two():
    why_not_first, other, why_not_second = "1", 2, "3"

def characters():
    why_not_fast_path = 'a "quote", \\\\, \\n, \\u00e9, \\u20ac, \\U0001f600, \\udc80'

def long():
    why_not_fast_path = "x" * 999 + "\\u20ac" * 9

def unset(never=False):
    if never:
        why_not_fast_path = "unset"

def deleted():
    why_not_fast_path = "deleted"
    del why_not_fast_path

def no_text():
    why_not_fast_path = HOSTILE

def derived_text():
    why_not_fast_path = DERIVED

def fails():
    why_not_fast_path = "fails"
    raise KeyError(why_not_fast_path)

def argument(why_not_fast_path):
    return len(why_not_fast_path)
'''


class Hostile:
    def __getattribute__(self, name):
        raise SystemExit("the program's code ran")

    __str__ = __repr__ = __len__ = __hash__ = __getattribute__  # type: ignore[assignment]


class Text(str):
    def __getattribute__(self, name):
        raise SystemExit("the program's code ran")

    __str__ = __repr__ = __len__ = __iter__ = __getattribute__  # type: ignore[assignment]


def main():
    agent = ctypes.PyDLL(sys.argv[1])
    python, start, stop = [getattr(agent, "optrace_agent_" + name)
                           for name in ("python", "start", "stop")]
    record_into(agent, sys.argv[2])
    reason = "".join(["a ", "reason"])
    values = {"REASON": reason, "HOSTILE": Hostile(), "DERIVED": Text("derived")}
    modules = [types.ModuleType(name) for name in ("torch.nn.modules.example", "mine.torch.nn.a")]
    for module in modules:
        vars(module).update(values)
        exec(SOURCE, vars(module))
    assert python(1) == 0 and start() == 0
    references = sys.getrefcount(reason)
    for module in modules:
        for name in ("plain", "plain", "empty", "two", "characters", "long", "unset", "deleted",
                     "no_text", "derived_text"):
            getattr(module, name)()
        try:
            module.fails()
        except KeyError as error:
            assert error.args == ("fails",)
        module.argument("argument")
    assert sys.getrefcount(reason) == references
    assert sys.exc_info() == (None, None, None)
    assert gc.isenabled()
    assert stop() == 0 and python(0) == 0
    sys.stdout.write("done\n")


main()
